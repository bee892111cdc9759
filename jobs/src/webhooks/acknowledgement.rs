//! The layer around every attempt, outside of all others: what ended is written, and whatever happens the attempt's place is
//! given back.
//!
//! While a worker drains, apalis waits for the handlers under way and asks the backend nothing until the last has ended. So it
//! is from here that results are written, and not from the backend.

use std::pin::Pin;
use std::task::{Context, Poll};

use apalis_core::layers::{Layer, Service};
use apalis_core::task::Task;
use kitfleet_domain::webhooks::deliveries::{AttemptResult, Outcome};
use tokio::sync::mpsc::UnboundedSender;

use super::AttemptJob;
use super::fair_queue::{Recipient, recipient_of};
use super::results::Results;

/// What the backend hears of the attempts that it handed out.
#[derive(Debug)]
pub(super) enum Report {
    /// How one went.
    Went(Recipient, Outcome),
    /// That one is over: it is written, or has nothing that could be.
    Over(Recipient),
}

/// An attempt's place among those under way. Who drops it gives it back.
#[derive(Debug)]
pub(super) struct AttemptSlot {
    recipient: Recipient,
    reports: UnboundedSender<Report>,
}

impl Drop for AttemptSlot {
    fn drop(&mut self) {
        // A backend that is gone counts no more.
        let _ = self.reports.send(Report::Over(self.recipient));
    }
}

/// Acknowledges attempts.
#[derive(Debug, Clone)]
pub struct Acknowledge {
    results: Results,
    reports: UnboundedSender<Report>,
}

impl Acknowledge {
    pub(super) fn new(results: Results, reports: UnboundedSender<Report>) -> Self {
        Self { results, reports }
    }
}

impl<S> Layer<S> for Acknowledge {
    type Service = Acknowledged<S>;

    fn layer(&self, inner: S) -> Acknowledged<S> {
        Acknowledged { inner, acknowledge: self.clone() }
    }
}

/// A service whose attempts are acknowledged.
#[derive(Debug, Clone)]
pub struct Acknowledged<S> {
    inner: S,
    acknowledge: Acknowledge,
}

impl<S> Service<Task<AttemptJob>> for Acknowledged<S>
where
    S: Service<Task<AttemptJob>, Response = Option<AttemptResult>>,
    S::Future: Send + 'static,
{
    type Response = ();
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<(), S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, task: Task<AttemptJob>) -> Self::Future {
        let Acknowledge { results, reports } = self.acknowledge.clone();
        let place = AttemptSlot { recipient: recipient_of(&task.args.attempt), reports };
        let made = self.inner.call(task);
        Box::pin(async move {
            // Of one without an end the claim runs out, and somebody may then do better.
            if let Some(ended) = made.await? {
                let _ = place.reports.send(Report::Went(place.recipient, ended.outcome));
                results.write(place.recipient.1, ended, place);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use apalis_core::error::BoxDynError;
    use apalis_core::task::task_fn::task_fn;
    use kitfleet_domain::ids::{AccountId, WebhookId};
    use sqlx::PgPool;
    use tokio::sync::mpsc::unbounded_channel;

    use super::super::fair_queue::tests::{attempts, settings};
    use super::*;

    /// Places are given back by attempts that end with nothing, panic, or are given up before they end.
    #[tokio::test]
    async fn a_place_is_given_back_whatever_happens() {
        let nothing: fn() -> Option<AttemptResult> = || None;
        let panics: fn() -> Option<AttemptResult> = || panic!("a handler that panics");
        for (made, awaited) in [(nothing, true), (panics, true), (nothing, false)] {
            let handler = move |_: AttemptJob| async move { tokio::spawn(async move { made() }).await };
            let service = task_fn::<_, AttemptJob, ()>(handler);
            let db = PgPool::connect_lazy("postgres://localhost/none").expect("an address");
            let (reporter, mut reports) = unbounded_channel();
            let acknowledge = Acknowledge::new(Results::new(db, settings()), reporter);
            let recipient = (AccountId::generate(), WebhookId::generate());
            let attempt = attempts(recipient, 1).pop().expect("one");
            let answer = acknowledge.layer(service).call(Task::new(AttemptJob { attempt, slow: false }));
            if awaited {
                let _: Result<(), BoxDynError> = answer.await;
            } else {
                drop(answer);
            }
            let report = reports.try_recv();
            assert!(matches!(report, Ok(Report::Over(over)) if over == recipient), "{report:?}");
        }
    }
}
