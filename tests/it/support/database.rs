//! A database for each test, copied from a template that the first test migrates.

use std::str::FromStr;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, PgPool};
use uuid::Uuid;

const TEMPLATE: &str = "kitfleet_template";

pub struct Database {
    pub pool: PgPool,
    pub name: String,
    server: PgConnectOptions,
}

impl Database {
    /// On the server that all tests share.
    ///
    /// # Panics
    /// When `KITFLEET_TEST_DATABASE_URL` is not the URL of a server. `./ops/test` starts one and sets it.
    pub async fn create() -> Self {
        Self::create_on(shared()).await
    }

    /// Without a schema, on the shared server.
    pub async fn create_empty() -> Self {
        let server = shared();
        let mut admin = server.connect().await.expect("the test database server runs");
        let name = create_from(&mut admin, "template0").await;
        close(admin).await;
        Self::open(server, name).await
    }

    pub async fn create_on(server: PgConnectOptions) -> Self {
        let mut admin = server.connect().await.expect("the test database server runs");
        admin.execute("select pg_advisory_lock(7)").await.expect("a lock");
        let known: bool = sqlx::query_scalar("select exists(select from pg_database where datname = $1)")
            .bind(TEMPLATE)
            .fetch_one(&mut admin)
            .await
            .expect("the catalogue");
        if !known {
            admin.execute("create database kitfleet_template_new").await.expect("a new template");
            let mut fresh = server.clone().database("kitfleet_template_new").connect().await.expect("the new template");
            kitfleet_jobs::migrate(&mut fresh).await.expect("migrations run on an empty database");
            fresh.close().await.expect("the template has no users");
            admin
                .execute("alter database kitfleet_template_new rename to kitfleet_template")
                .await
                .expect("a template");
        }
        let name = create_from(&mut admin, TEMPLATE).await;
        close(admin).await;
        Self::open(server, name).await
    }

    async fn open(server: PgConnectOptions, name: String) -> Self {
        let pool = PgPool::connect_with(server.clone().database(&name)).await.expect("the test's database");
        Self { pool, name, server }
    }

    pub fn server(&self) -> &PgConnectOptions {
        &self.server
    }

    pub fn url(&self) -> String {
        self.server.clone().database(&self.name).to_url_lossy().to_string()
    }

    /// Drops the database, also when connections to it are open.
    pub async fn drop(&self) {
        self.pool.close().await;
        let mut admin = self.server.connect().await.expect("the test database server runs");
        let drop = format!("drop database if exists {} with (force)", self.name);
        admin.execute(sqlx::AssertSqlSafe(drop)).await.expect("the test's database goes");
        close(admin).await;
    }
}

fn shared() -> PgConnectOptions {
    let url = std::env::var("KITFLEET_TEST_DATABASE_URL").expect("./ops/test sets KITFLEET_TEST_DATABASE_URL");
    PgConnectOptions::from_str(&url).expect("a database URL")
}

/// Returns the name of the copy. Copying files takes half of the time of copying through the log.
async fn create_from(admin: &mut PgConnection, template: &str) -> String {
    let name = format!("test_{}", Uuid::now_v7().simple());
    let create = format!("create database {name} template {template} strategy file_copy");
    admin.execute(sqlx::AssertSqlSafe(create)).await.expect("a copy of the template");
    name
}

async fn close(connection: PgConnection) {
    connection.close().await.expect("a connection closes");
}
