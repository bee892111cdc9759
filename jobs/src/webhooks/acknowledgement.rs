//! The outermost layer around an attempt: it writes the result and always releases the attempt's slot.
//!
//! While a worker drains, apalis waits for running handlers and does not poll the backend, so the backend cannot write
//! results.

use std::pin::Pin;
use std::task::{Context, Poll};

use apalis_core::layers::{Layer, Service};
use apalis_core::task::Task;
use kitfleet_domain::webhooks::attempts::AttemptResult;
use tokio::sync::mpsc::UnboundedSender;

use super::AttemptJob;
use super::attempt_slots::{AttemptSlot, Report};
use super::fair_queue::recipient_of;
use super::results::Results;

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
        let place = AttemptSlot::new(recipient_of(&task.args.attempt), reports);
        let made = self.inner.call(task);
        Box::pin(async move {
            // Without a result the claim expires, and the delivery can be claimed again.
            if let Some(ended) = made.await? {
                place.report(ended.outcome);
                results.write(place.endpoint(), ended, place);
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use apalis_core::error::BoxDynError;
    use apalis_core::task::task_fn::task_fn;
    use kitfleet_types::ids::{AccountId, WebhookId};
    use sqlx::PgPool;
    use tokio::sync::mpsc::unbounded_channel;

    use super::super::fair_queue::tests::{attempts, settings};
    use super::*;

    /// Covers an attempt without a result, a panic, and an attempt that is dropped before it ends.
    #[tokio::test]
    async fn slot_is_released_without_result_after_panic_and_on_drop() {
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
