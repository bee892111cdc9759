//! A queue is declared beside its job, as `QUEUE`, and listed in [`QUEUES`](crate::QUEUES).

use kitfleet_types::ids::WorkerId;

/// Workers, metrics and operators' commands handle a queue by these facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Name in metrics, without a worker's id.
    pub name: &'static str,
    server: Server,
    rows: Rows,
    wakeup: Wakeup,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    AnyWorker,
    /// Each worker incarnation has a queue, because it alone has the browser or the secrets.
    OneWorker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    Apalis,
    OfArea,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wakeup {
    Channel,
    /// The worker that keeps the time of scheduled jobs starts them.
    Timer,
}

impl Queue {
    /// The rows are in apalis's table.
    #[must_use]
    pub const fn of_all_workers(name: &'static str) -> Self {
        Self { name, server: Server::AnyWorker, rows: Rows::Apalis, wakeup: Wakeup::Channel }
    }

    /// Declares a queue in apalis's table for each worker incarnation. Its jobs run once, and are killed with their worker.
    #[must_use]
    pub const fn of_each_worker(name: &'static str) -> Self {
        Self { name, server: Server::OneWorker, rows: Rows::Apalis, wakeup: Wakeup::Channel }
    }

    /// Instead of apalis's table.
    #[must_use]
    pub(crate) const fn in_area_table(mut self) -> Self {
        self.rows = Rows::OfArea;
        self
    }

    /// Makes the worker that keeps the time of scheduled jobs start the jobs, instead of wake-ups.
    #[must_use]
    pub(crate) const fn started_by_timer(mut self) -> Self {
        self.wakeup = Wakeup::Timer;
        self
    }

    #[must_use]
    pub fn name_at(self, worker: WorkerId) -> String {
        match self.server {
            Server::AnyWorker => self.name.to_owned(),
            Server::OneWorker => format!("{}:{worker}", self.name),
        }
    }

    #[must_use]
    pub fn is_in_apalis(self) -> bool {
        self.rows == Rows::Apalis
    }

    #[must_use]
    pub fn is_woken(self) -> bool {
        self.wakeup == Wakeup::Channel
    }

    /// Returns true when its jobs, in apalis's table, run once on one worker.
    pub(crate) fn is_exclusive(self) -> bool {
        self.is_in_apalis() && self.server == Server::OneWorker
    }
}
