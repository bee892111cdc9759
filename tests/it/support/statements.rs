//! Statements that a service sends to its database, as PostgreSQL counts them.

use std::fmt;

use sqlx::{AssertSqlSafe, FromRow};

use super::App;

#[derive(FromRow)]
pub struct Statement {
    pub query: String,
    pub calls: i64,
    /// 8 KiB pages per call, or per ten returned rows if there are more of these.
    pub pages: f64,
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} calls of {:.0} pages: {}", self.calls, self.pages, self.query)
    }
}

pub fn list<'a>(statements: impl IntoIterator<Item = &'a Statement>) -> String {
    statements.into_iter().map(ToString::to_string).collect()
}

/// Requires a service that was started with [`counting_statements`](super::Builder::counting_statements).
impl App {
    pub async fn count_statements(&self) {
        self.execute_all("create extension if not exists pg_stat_statements").await;
        let reset =
            "select pg_stat_statements_reset(0, (select oid from pg_database where datname = current_database()))";
        sqlx::query(reset).execute(&self.database.pool).await.expect("counts begin anew");
    }

    /// Since the reset, ordered by pages, without those of this module.
    pub async fn statements(&self) -> Vec<Statement> {
        sqlx::query_as(
            "select query, calls, (shared_blks_hit + shared_blks_read)::float8 / greatest(calls, rows / 10) as pages
             from pg_stat_statements
             where dbid = (select oid from pg_database where datname = current_database()) and query not like '%pg_stat%'
             order by pages desc",
        )
        .fetch_all(&self.database.pool)
        .await
        .expect("the counts")
    }

    pub async fn execute_all(&self, statements: &str) {
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&self.database.pool).await.expect("statements");
    }
}
