//! Turns of agent sessions (contract: agents 15 to 25).
//!
//! A turn begins with the commit of its plan, before any step runs. Each step is an ordinary operation on the driver
//! session, whose ID is in the plan. When a worker dies, recovery ends the turn with the recorded outcomes of these
//! operations.

mod actions;
mod dialogs;
mod elements;
mod models;
mod step_outcomes;
mod steps;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use apalis::prelude::BoxDynError;
use kitfleet_domain::agents::queued_turn::QueuedTurn;
use kitfleet_domain::agents::steps::{Step, StepStatus};
use kitfleet_domain::agents::turn_lifecycle::{self, TurnEnding};
use kitfleet_domain::agents::turns::{Decomposer, TurnKind, TurnTexts};
use kitfleet_domain::agents::{MESSAGE_CHARS, Sealer};
use kitfleet_domain::database::{begin, persist};
use kitfleet_grammar::{Rules, hiding};
use kitfleet_jobs::agents::TurnJob;
use kitfleet_jobs::replies::{Work, notify_ended};
use kitfleet_jobs::traces;
use kitfleet_types::commands::ParsedMessage;
use kitfleet_types::ids::{IntentId, StepId, TurnId};
use kitfleet_types::operations::Candidate;
use kitfleet_types::timestamp::Timestamp;
use tracing::Instrument as _;
use tracing::field::Empty;

use self::dialogs::TurnDialogs;
use self::step_outcomes::{LocatedElement, StepOutcome};
use crate::Context;

/// For a read of the session to get its claim.
const CLAIMS_WITHIN: Duration = Duration::from_secs(5);

pub(crate) async fn handle(job: TurnJob, context: Arc<Context>) -> Result<(), BoxDynError> {
    let id = job.turn;
    let running = tokio::spawn(run(id, Arc::clone(&context)));
    let failure: BoxDynError = match running.await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.into(),
        Err(panic) => panic.into(),
    };
    // No other process ends a turn of a live worker, and the agent session accepts no other turn before that.
    tracing::error!(error = %failure, turn = %id, "agent turn failed");
    let fail = || async {
        let mut tx = begin(&context.db).await?;
        turn_lifecycle::fail_lost(&mut tx, id).await?;
        tx.commit().await
    };
    persist("end a turn", fail).await?;
    Err(failure)
}

async fn run(id: TurnId, context: Arc<Context>) -> sqlx::Result<()> {
    let fetch = || async {
        let vault = context.config.webhooks.vault.as_ref();
        Sealer::fetch(&mut *context.db.acquire().await?, vault).await
    };
    let sealer = context.sealer.get_or_try_init(|| persist("fetch the sealing key of turns", fetch)).await?;
    let read = || async { turn_lifecycle::waiting(&mut *context.db.acquire().await?, sealer, id).await };
    let Some(waiting) = persist("read a message", read).await? else { return Ok(()) };
    let span = tracing::info_span!("turn", turn = %id, request_id = waiting.request_id, trace_id = Empty);
    traces::follow(&span, waiting.trace_parent);
    let page_held = AtomicBool::new(false);
    let turn = RunningTurn {
        context: &context,
        sealer,
        waiting,
        since: Instant::now(),
        began: Timestamp(SystemTime::now().into()),
        page_held,
        dialogs: Mutex::default(),
    };
    turn.answer().instrument(span).await
}

fn decompose(context: &Context, message: &str) -> ParsedMessage {
    let rules = Rules {
        destinations: &context.config.destinations,
        limits: &context.config.limits,
        max_steps: context.config.agents.max_steps_per_turn,
        max_characters: MESSAGE_CHARS,
    };
    kitfleet_grammar::read(message, &rules)
}

struct RunningTurn<'a> {
    context: &'a Context,
    sealer: &'a Sealer,
    waiting: QueuedTurn,
    since: Instant,
    /// By the clock of this worker.
    began: Timestamp,
    /// The page submitted the form by itself, and no step's result reports it.
    page_held: AtomicBool,
    dialogs: Mutex<TurnDialogs>,
}

struct PlanOutcome {
    kind: TurnKind,
    reply: String,
    candidates: Vec<Candidate>,
}

impl RunningTurn<'_> {
    async fn answer(&self) -> sqlx::Result<()> {
        let ending = if !self.waiting.request.approvals.is_empty() {
            self.continue_plan().await?
        } else if let Some(means) = self.model_client().await? {
            self.consult(means).await?
        } else {
            self.run_message().await?
        };
        match ending {
            Some(mut ending) => {
                self.add_page_activity(&mut ending.texts).await;
                self.end(&ending).await
            }
            None => Ok(()),
        }
    }

    /// `None` when another process has already begun the turn.
    async fn run_message(&self) -> sqlx::Result<Option<TurnEnding>> {
        let message = &self.waiting.request.message;
        let reading = decompose(self.context, message);
        let shown = hiding::shown(message, &reading);
        let answered = |kind, reply| {
            let texts = TurnTexts { message: shown.clone(), reply, ..TurnTexts::default() };
            Ok(Some(TurnEnding { kind, texts, steps: Vec::new(), read: Some((Decomposer::Deterministic, kind)) }))
        };
        let commands = match reading {
            ParsedMessage::Plan(commands) => commands,
            ParsedMessage::Clarify { reply } => return answered(TurnKind::Clarify, reply),
            ParsedMessage::Refuse { reply } => return answered(TurnKind::Refuse, reply),
        };
        let steps = commands.into_iter().map(Step::planned).collect();
        self.run_steps(steps, shown, None, Some((Decomposer::Deterministic, TurnKind::Plan))).await
    }

    /// Continues the waiting plan, if the message approves its first step.
    async fn continue_plan(&self) -> sqlx::Result<Option<TurnEnding>> {
        let request = &self.waiting.request;
        let shown = hiding::unread(&request.message);
        let read = || async {
            turn_lifecycle::pending(&mut *self.context.db.acquire().await?, self.sealer, self.waiting.session).await
        };
        let mut steps = persist("read a plan", read).await?;
        let approved = steps.first().filter(|step| step.status == StepStatus::NeedsApproval).map(|step| step.id);
        let Some(approved) = approved.filter(|id| request.approvals.contains(&id.to_string())) else {
            let reply = "Nothing was done: no step with that ID waits for approval in this agent session. Send the instruction again.";
            let texts = TurnTexts { message: shown, reply: reply.to_owned(), ..TurnTexts::default() };
            return Ok(Some(TurnEnding { kind: TurnKind::Clarify, texts, steps: Vec::new(), read: None }));
        };
        for step in &mut steps {
            step.operation = IntentId::generate();
            step.status = StepStatus::Planned;
        }
        self.run_steps(steps, shown, Some(approved), None).await
    }

    /// `None` when another process has already begun the turn.
    async fn run_steps(
        &self,
        mut steps: Vec<Step>,
        shown: String,
        approved: Option<StepId>,
        read: Option<(Decomposer, TurnKind)>,
    ) -> sqlx::Result<Option<TurnEnding>> {
        let write = || async {
            let mut conn = self.context.async_commit_pool.acquire().await?;
            turn_lifecycle::begin(&mut conn, self.sealer, &self.waiting, &shown, &steps, approved.is_some()).await
        };
        // Locating elements changes nothing, so it runs while the plan is being written.
        let (begun, ahead) = tokio::join!(persist("begin a turn", write), self.locate_first(&steps, approved));
        if !begun? {
            return Ok(None);
        }
        let mut bytes_left = self.bytes_left();
        let PlanOutcome { kind, reply, candidates } =
            self.run(&mut steps, (0, ahead?), approved, &mut bytes_left).await?;
        let reply = self.with_held_changes(reply, &steps);
        let texts = TurnTexts { message: shown, reply, candidates, ..TurnTexts::default() };
        Ok(Some(TurnEnding { kind, texts, steps, read }))
    }

    /// Until one ends the turn. `ahead` holds the elements of the first step if they are already located. The results must fit
    /// into `bytes_left` bytes.
    async fn run(
        &self,
        steps: &mut [Step],
        (first, mut ahead): (usize, Option<LocatedElement>),
        approved: Option<StepId>,
        bytes_left: &mut usize,
    ) -> sqlx::Result<PlanOutcome> {
        let plan = |reply: String| PlanOutcome { kind: TurnKind::Plan, reply, candidates: Vec::new() };
        let count = steps.len();
        for at in first..count {
            let place = if count == 1 { String::new() } else { format!("Step {} of {count}: ", at + 1) };
            let (step, behind) = steps[at..].split_first_mut().unwrap_or_else(|| unreachable!("there are so many"));
            let skip_rest = |behind: &mut [Step]| {
                for step in behind.iter_mut() {
                    step.status = StepStatus::Skipped;
                }
            };
            if self.since.elapsed() >= self.context.config.agents.turn_timeout {
                step.status = StepStatus::Skipped;
                skip_rest(behind);
                return Ok(plan(format!("{place}not begun, because the turn has reached its time limit.")));
            }
            let is_approved = approved == Some(step.id);
            match self.step(step, is_approved, bytes_left, ahead.take()).await? {
                StepOutcome::Well => {}
                StepOutcome::Wrong => {
                    skip_rest(behind);
                    let error = step.end.error.as_deref().unwrap_or_default().trim_end_matches('.');
                    let rest = if behind.is_empty() { "" } else { " The remaining steps were skipped." };
                    return Ok(plan(format!("{place}{error}.{rest}")));
                }
                StepOutcome::Asks { why } => {
                    return Ok(plan(format!(
                        "{place}{why} and waits for approval: send a message with approvals [\"{}\"].",
                        step.id
                    )));
                }
                StepOutcome::Unclear { reply, candidates } => {
                    step.status = StepStatus::Skipped;
                    skip_rest(behind);
                    return Ok(PlanOutcome { kind: TurnKind::Clarify, reply: format!("{place}{reply}"), candidates });
                }
                StepOutcome::Stopped(why) => {
                    step.status = StepStatus::Skipped;
                    skip_rest(behind);
                    return Ok(plan(format!("{place}not begun, because {why}.")));
                }
            }
        }
        Ok(plan(if count == 1 { "Done.".to_owned() } else { format!("Done, all {count} steps.") }))
    }

    /// For the results of the turn's steps in total.
    fn bytes_left(&self) -> usize {
        let config = &self.context.config;
        self.waiting.bytes_left(config.agents.turn_result_bytes, &config.limits)
    }

    async fn end(&self, ending: &TurnEnding) -> sqlx::Result<()> {
        let write = || async {
            let receipts = self.context.config.webhooks.vault.as_ref();
            let mut conn = self.context.db.acquire().await?;
            turn_lifecycle::end(&mut conn, self.sealer, receipts, &self.waiting, ending).await
        };
        if let Some(channel) = persist("end a turn", write).await? {
            notify_ended(&self.context.wakeups, &channel, Work::Turn(self.waiting.id));
        }
        Ok(())
    }
}
