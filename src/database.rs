//! The database of a command: the configured one, or the embedded one.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kitfleet_domain::database::{self, MigrationFault, SchemaState};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgConnection, PgPool};

use crate::config::Config;
use crate::embedded::{Cluster, Folder, Lock};

/// Time limit for the answer of a database, and for another process that starts or stops the embedded database.
const PATIENCE: Duration = Duration::from_secs(10);

/// Stays available during the lifetime of this value.
pub struct Database {
    source: Source,
    /// Name that `pg_stat_activity` shows for connections of this process.
    application: String,
}

enum Source {
    Configured(Box<Configured>),
    Embedded(Cluster),
    /// Embedded database of another Kitfleet process on the same `data_dir`.
    Attached(Folder),
}

/// Two addresses of one database.
struct Configured {
    /// May lead through a pooler, which can give each transaction another connection.
    pooled: PgConnectOptions,
    direct: PgConnectOptions,
}

impl Configured {
    fn of(config: &Config) -> Result<Option<Source>> {
        let Some(url) = &config.database.url else { return Ok(None) };
        let direct = config.database.listen_url.as_ref().unwrap_or(url).options()?;
        Ok(Some(Source::Configured(Box::new(Self { pooled: url.options()?, direct }))))
    }
}

impl Database {
    fn new(source: Source) -> Self {
        Self { source, application: "kitfleet".to_owned() }
    }

    #[must_use]
    pub fn for_role(self, role: &str) -> Self {
        Self { application: format!("kitfleet {role}"), ..self }
    }

    /// For `kitfleet up`: the configured database, or the embedded one, which this process runs.
    pub async fn start(config: &Config) -> Result<Self> {
        if let Some(configured) = Configured::of(config)? {
            return Ok(Self::new(configured));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(lock) = Lock::take(&config.data_dir)? {
                return Ok(Self::new(Source::Embedded(Cluster::start(&config.data_dir, lock).await?)));
            }
            let in_use = "another kitfleet process runs the embedded database in";
            ensure!(Instant::now() < deadline, "{in_use} {}", config.data_dir.display());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// For `kitfleet api` and `kitfleet worker`: the configured database, or the embedded one that `kitfleet up` runs on
    /// the same `data_dir`. Its schema has to be up to date: these roles run in many processes and do not migrate.
    pub async fn join(config: &Config) -> Result<Self> {
        let database = match Configured::of(config)? {
            Some(configured) => Self::new(configured),
            None => match attach(&config.data_dir).await {
                Ok(folder) => Self::new(Source::Attached(folder)),
                Err(error) => bail!(
                    "database.url is not set, and no `kitfleet up` runs the embedded database in {} ({error:#})",
                    config.data_dir.display()
                ),
            },
        };
        database.require_migrations().await?;
        Ok(database)
    }

    /// For commands: the configured database, or the embedded one, which has to exist. When no other process runs the embedded
    /// one, this process runs it during the command, and upgrades its schema.
    pub async fn reach(config: &Config) -> Result<Self> {
        ensure!(
            config.database.url.is_some() || Folder::is_in(&config.data_dir),
            "there is no database in {}: create one with `kitfleet up` or `kitfleet migrate`, or set data_dir or database.url",
            config.data_dir.display()
        );
        let database = Self::to_migrate(config).await?;
        match database.source {
            Source::Embedded(_) => {
                database.migrate().await?;
            }
            Source::Configured(_) | Source::Attached(_) => database.require_migrations().await?,
        }
        Ok(database)
    }

    pub async fn to_migrate(config: &Config) -> Result<Self> {
        if let Some(configured) = Configured::of(config)? {
            return Ok(Self::new(configured));
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(lock) = Lock::take(&config.data_dir)? {
                return Ok(Self::new(Source::Embedded(Cluster::start(&config.data_dir, lock).await?)));
            }
            match attach(&config.data_dir).await {
                Ok(folder) => return Ok(Self::new(Source::Attached(folder))),
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    pub fn options(&self) -> PgConnectOptions {
        self.named(match &self.source {
            Source::Configured(configured) => configured.pooled.clone(),
            Source::Embedded(cluster) => cluster.options(),
            Source::Attached(folder) => folder.options(),
        })
    }

    /// An application name in `database.url` takes precedence.
    fn named(&self, options: PgConnectOptions) -> PgConnectOptions {
        if options.get_application_name().is_some() { options } else { options.application_name(&self.application) }
    }

    /// Options for connections that keep state between transactions: LISTEN and locks.
    pub fn direct_options(&self) -> PgConnectOptions {
        match &self.source {
            Source::Configured(configured) => self.named(configured.direct.clone()),
            Source::Embedded(_) | Source::Attached(_) => self.options(),
        }
    }

    pub async fn connect(&self) -> Result<PgConnection> {
        connect(&self.options()).await.with_context(|| self.unreachable())
    }

    pub async fn pool(&self, config: &Config) -> Result<PgPool> {
        let pool = database::connect(self.options(), config.database.max_connections).await;
        pool.with_context(|| self.unreachable())
    }

    /// One connection for callers that retry during an outage of the database. It connects on first use, so that the
    /// pool can be created during an outage.
    pub fn retrying_pool(&self) -> PgPool {
        let options = PgPoolOptions::new().max_connections(1).acquire_timeout(PATIENCE);
        options.connect_lazy_with(database::watched(self.options()))
    }

    fn unreachable(&self) -> String {
        match &self.source {
            Source::Configured(configured) => {
                let pooled = &configured.pooled;
                let place = pooled.get_socket().map_or_else(
                    || format!("{}:{}", pooled.get_host(), pooled.get_port()),
                    |folder| folder.display().to_string(),
                );
                format!("the database at {place} (database.url) cannot be reached")
            }
            Source::Embedded(_) | Source::Attached(_) => "the embedded database cannot be reached".to_owned(),
        }
    }

    pub async fn migrate(&self) -> Result<SchemaState> {
        // Migrations hold a lock, so that only one process migrates at a time.
        let mut conn = connect(&self.direct_options()).await.with_context(|| self.unreachable())?;
        kitfleet_jobs::migrate(&mut conn).await?;
        let schema = database::schema(&mut conn).await?;
        conn.close().await?;
        Ok(schema)
    }

    async fn require_migrations(&self) -> Result<()> {
        ensure!(
            schema(&mut self.connect().await?).await? != SchemaState::Older,
            "the database schema is not up to date: run `kitfleet migrate`"
        );
        Ok(())
    }

    /// Stops the database when this process runs it.
    pub async fn close(self) {
        if let Source::Embedded(cluster) = self.source {
            cluster.stop().await;
        }
    }
}

/// An empty database has no migration.
pub async fn schema(conn: &mut PgConnection) -> sqlx::Result<SchemaState> {
    match database::schema(conn).await {
        Err(error) if is_undefined_table(&error) => Ok(SchemaState::Older),
        schema => schema,
    }
}

/// An empty database has none.
pub async fn migration_faults(conn: &mut PgConnection) -> sqlx::Result<Vec<MigrationFault>> {
    match database::migration_faults(conn).await {
        Err(error) if is_undefined_table(&error) => Ok(Vec::new()),
        faults => faults,
    }
}

fn is_undefined_table(error: &sqlx::Error) -> bool {
    const UNDEFINED_TABLE: &str = "42P01";
    error.as_database_error().is_some_and(|error| error.code().as_deref() == Some(UNDEFINED_TABLE))
}

/// A database that does not answer would block the caller forever.
async fn connect(options: &PgConnectOptions) -> sqlx::Result<PgConnection> {
    let connected = tokio::time::timeout(PATIENCE, PgConnection::connect_with(options)).await;
    connected.unwrap_or_else(|late| Err(io::Error::from(late).into()))
}

pub async fn attach(data_dir: &Path) -> Result<Folder> {
    let folder = Folder::open(data_dir)?;
    connect(&folder.options()).await.context("no answer")?.close().await?;
    Ok(folder)
}
