//! Turns whose message a model reads (contract: byok 16, 17 to 24). The plan of the model runs like one of the grammar. It is
//! asked again, within limits, when it needs the outcome of its steps.
//!
//! There is no fallback when the provider fails: the turn does nothing, and its reply says so.

use std::time::Duration;

use kitfleet_domain::agents::decomposers::{self, Decomposer as Reader};
use kitfleet_domain::agents::model_turns::{self, ModelUsage, TurnContext};
use kitfleet_domain::agents::steps::{self, Step, StepStatus};
use kitfleet_domain::agents::texts::{TextOrigins, TextSources};
use kitfleet_domain::agents::turn_lifecycle::TurnEnding;
use kitfleet_domain::agents::turns::{Decomposer, TurnKind, TurnTexts};
use kitfleet_domain::byok::Provider;
use kitfleet_domain::database::{begin, persist};
use kitfleet_grammar::hiding;
use kitfleet_models::{
    self as models, Action, Condition, ConversationRole, Credential, Failure, Item, MAX_ANSWER, MIN_ANSWER,
    ModelAnswer, ModelCall, Page, Payer, Prompt, PromptContext, Ref,
};
use kitfleet_types::commands::{self, Command, DragEnd, ElementQuery, ExtractItem, PageQuery, WaitCondition};
use kitfleet_types::ids::PageId;
use kitfleet_types::operations::{BrowserPage, BrowserPages, ListPages, Operation, PageSnapshot, Snapshot};
use uuid::Uuid;

use super::dialogs::{describe_dialog, quoted};
use super::{PlanOutcome, RunningTurn};

/// Earlier turns in a request.
const REMEMBERED_TURNS: i64 = 20;
const RESULT_CHARS: usize = 2_000;
/// No page was loaded.
const BLANK: &str = "about:blank";

pub(super) struct ModelClient {
    provider: Provider,
    /// Sealed with a key that this deployment does not have.
    credential: Option<Credential>,
}

/// The text completes a sentence that begins with "because".
enum ModelFailure {
    Failed(String),
    /// The request exceeds the budget of tokens or cents.
    Budget(String),
    Stopped(String),
}

struct Progress {
    steps: Vec<Step>,
    taken: ModelUsage,
    history: Vec<TurnTexts>,
    sources: TextSources,
    /// Pages of the browser when the model was last asked.
    pages: Vec<PageId>,
}

/// Shown to the model.
#[derive(Default)]
struct BrowserView {
    /// No page was loaded, or a dialog is open.
    page: Option<PageSnapshot>,
    dialog: Option<String>,
    pages: Vec<BrowserPage>,
    files: Vec<String>,
}

impl RunningTurn<'_> {
    /// `None` when the account uses no model.
    pub(super) async fn model_client(&self) -> sqlx::Result<Option<ModelClient>> {
        let bundled = self.context.models.bundled();
        let choose = || async {
            let mut conn = self.context.async_commit_pool.acquire().await?;
            decomposers::choose(&mut conn, self.waiting.account, bundled.is_some()).await
        };
        Ok(match persist("choose the interpreter of a message", choose).await? {
            Reader::Deterministic { .. } => None,
            Reader::Bundled => {
                bundled.cloned().map(|key| ModelClient { provider: key.provider, credential: Some(key) })
            }
            Reader::OwnKey(sealed) => {
                let provider = sealed.provider;
                let opened = self.context.config.webhooks.vault.as_ref().and_then(|vault| sealed.open(vault).ok());
                let credential = opened.map(|key| Credential { provider, key, payer: Payer::Account });
                Some(ModelClient { provider, credential })
            }
        })
    }

    /// `None` when another process has begun or ended the turn.
    pub(super) async fn consult(&self, means: ModelClient) -> sqlx::Result<Option<TurnEnding>> {
        let (asker, whom) = (Uuid::now_v7(), (means.provider, self.context.models.model(means.provider)));
        let write = || async {
            let mut conn = self.context.db.acquire().await?;
            model_turns::begin(&mut conn, &self.waiting, asker, whom).await
        };
        if !persist("begin a turn", write).await? {
            return Ok(None);
        }
        let recall = || async {
            let mut conn = self.context.async_commit_pool.acquire().await?;
            model_turns::conversation(&mut conn, self.sealer, self.waiting.session, REMEMBERED_TURNS).await
        };
        let history = persist("read the earlier messages of an agent session", recall).await?;
        let messages = history.iter().map(|said| said.message.as_str()).chain([self.waiting.request.message.as_str()]);
        let sources = TextSources::new(messages, history.iter().map(|said| said.reply.as_str()));
        let mut progress =
            Progress { steps: Vec::new(), taken: ModelUsage::default(), history, sources, pages: Vec::new() };
        let Some(ran) = self.converse(Some(means), &mut progress).await? else { return Ok(None) };
        let Progress { steps, .. } = progress;
        let message = &self.waiting.request.message;
        let reply = hiding::redact_reply(&ran.reply, message, steps.iter().map(|step| &step.command));
        let texts = TurnTexts {
            message: shown(message, &steps),
            reply: self.with_held_changes(reply, &steps),
            candidates: ran.candidates,
            ..TurnTexts::default()
        };
        Ok(Some(TurnEnding { kind: ran.kind, texts, steps, read: Some((Decomposer::Claude, ran.kind)) }))
    }

    /// Repeats as long as the model must look again. `None` when another process has ended the turn.
    async fn converse(
        &self,
        mut means: Option<ModelClient>,
        progress: &mut Progress,
    ) -> sqlx::Result<Option<PlanOutcome>> {
        let agents = &self.context.config.agents;
        let mut bytes_left = self.bytes_left();
        let said = |kind, reply| Ok(Some(PlanOutcome { kind, reply, candidates: Vec::new() }));
        for calls_left in (0..agents.max_model_calls_per_turn).rev() {
            // A deleted key is no longer used.
            let with = match means.take() {
                Some(means) => Some(means),
                None => self.model_client().await?,
            };
            let (wanted, reply, look_again) = match self.request_answer(with, progress).await? {
                Ok(ModelAnswer::Plan { steps, reply, look_again }) => (steps, reply, look_again),
                Ok(ModelAnswer::Clarify { reply }) => return said(TurnKind::Clarify, reply),
                Ok(ModelAnswer::Refuse { reply }) => return said(TurnKind::Refuse, reply),
                Err(unheard) => return Ok(Some(interrupted_outcome(unheard, &progress.steps))),
            };
            let first = progress.steps.len();
            progress.steps.extend(planned(wanted, &progress.sources, &progress.pages));
            if first == progress.steps.len() {
                return said(TurnKind::Plan, reply);
            }
            if !self.extend(&progress.steps, first).await? {
                return Ok(None);
            }
            let mut ran = self.run(&mut progress.steps, (first, None), None, &mut bytes_left).await?;
            if progress.steps[first..].iter().any(|step| step.status != StepStatus::Done) {
                return Ok(Some(ran));
            }
            progress.record_page_texts(first);
            if !reply.is_empty() {
                ran.reply = reply;
            }
            if !look_again {
                return Ok(Some(ran));
            }
            if calls_left == 0 || progress.steps.len() >= agents.max_steps_per_turn {
                ran.reply = format!(
                    "{} There may be more to do: the message has reached its limit of model requests or steps. Send a message to continue.",
                    ran.reply
                );
                return Ok(Some(ran));
            }
        }
        said(TurnKind::Clarify, "This deployment allows no model requests per message.".to_owned())
    }

    /// Before they run. `false` when another process has ended the turn.
    async fn extend(&self, steps: &[Step], first: usize) -> sqlx::Result<bool> {
        let shown = shown(&self.waiting.request.message, steps);
        let write = || async {
            let mut tx = begin(&self.context.db).await?;
            let plan = (first, &steps[first..]);
            let running = model_turns::extend(&mut tx, self.sealer, &self.waiting, &shown, plan).await?;
            tx.commit().await?;
            Ok(running)
        };
        persist("record a model's plan", write).await
    }

    /// Sends one model request, if the session's state and budget allow it.
    async fn request_answer(
        &self,
        means: Option<ModelClient>,
        progress: &mut Progress,
    ) -> sqlx::Result<Result<ModelAnswer, ModelFailure>> {
        let Some(ModelClient { provider, credential }) = means else {
            return Ok(Err(failed("there is no longer a key for model requests")));
        };
        let Some(credential) = credential else {
            return Ok(Err(failed("this deployment cannot open the account's key; store the key again")));
        };
        let agents = &self.context.config.agents;
        let read_context = || async {
            let mut conn = self.context.async_commit_pool.acquire().await?;
            model_turns::turn_context(&mut conn, &self.waiting, agents.heartbeat_timeout).await
        };
        let TurnContext { stop, tokens_left, bundled_cents } =
            persist("read the state of an agent session", read_context).await?;
        if let Some(stop) = stop {
            return Ok(Err(stopped(stop.reason())));
        }
        let paid = credential.payer == Payer::Deployment;
        if let Some(cap) = agents.bundled_monthly_cents.filter(|cap| paid && bundled_cents >= f64::from(*cap)) {
            decomposers::count_exhausted_budget();
            let reply = format!(
                "the model is not asked: this month the account has spent the {cap} cents that this deployment pays for models; store a key of your own, \
                 or wait for the next month"
            );
            return Ok(Err(ModelFailure::Budget(reply)));
        }
        let view = match self.view().await? {
            Ok(view) => view,
            Err(unheard) => return Ok(Err(unheard)),
        };
        let BrowserView { page, dialog, pages, files } = &view;
        progress.add_view(&view);
        let pages: Vec<_> = pages.iter().filter(|_| pages.len() > 1).map(describe_page).collect();
        let within = agents.turn_timeout.saturating_sub(self.since.elapsed());
        if within.is_zero() {
            return Ok(Err(stopped("the turn has reached its time limit")));
        }
        let done: Vec<_> = progress.steps.iter().map(describe_step).collect();
        let history = history(&progress.history);
        let mut ask = Prompt {
            message: &self.waiting.request.message,
            history: &history,
            page: page.as_ref().map(|page| Page { url: &page.url, snapshot: &page.snapshot, links: &page.links }),
            done: &done,
            max_steps: agents.max_steps_per_turn.saturating_sub(progress.steps.len()),
            max_tokens: MAX_ANSWER,
            context: PromptContext { dialog: dialog.as_deref(), pages: &pages, files },
        };
        let (asking, left) =
            (self.context.models.guess_tokens(provider, &ask), u64::try_from(tokens_left).unwrap_or(0));
        ask.max_tokens = u32::try_from(left.saturating_sub(asking)).map_or(MAX_ANSWER, |left| left.min(MAX_ANSWER));
        if ask.max_tokens < MIN_ANSWER {
            if paid {
                decomposers::count_exhausted_budget();
            }
            let needed = asking.saturating_add(MIN_ANSWER.into());
            let reply = format!(
                "the model is not asked: the request takes {needed} tokens, and the agent session's token_budget has {left} left"
            );
            return Ok(Err(ModelFailure::Budget(reply)));
        }
        let Some(asked) = self.ask(&credential, &ask, within).await else {
            return Ok(Err(stopped("the worker stops")));
        };
        drop(credential);
        let reading = asked.reading;
        let used = [asked.usage.input, asked.usage.output, asked.usage.cache_write, asked.usage.cache_read];
        let [input, output, cache_write, cache_read] = used.map(i64::from);
        let taken = &mut progress.taken;
        taken.input += input;
        taken.output += output;
        taken.cache_write += cache_write;
        taken.cache_read += cache_read;
        taken.cost_cents = round_to_ten_thousandth(taken.cost_cents + asked.cost.cents());
        let (which, taken) = ((provider, asked.model.as_str()), &progress.taken);
        let note = || async {
            model_turns::note(&mut *self.context.db.acquire().await?, &self.waiting, which, taken, paid).await
        };
        persist("record the tokens of a model request", note).await?;
        Ok(reading.map_err(|failure| match failure {
            Failure::CutOff if ask.max_tokens < MAX_ANSWER => ModelFailure::Budget(format!(
                "the model's answer did not fit into the {} tokens that were left of the agent session's token_budget",
                ask.max_tokens
            )),
            failure => failed(&failure.to_string()),
        }))
    }

    /// `None` when the worker stops.
    async fn ask(&self, with: &Credential, ask: &Prompt<'_>, within: Duration) -> Option<ModelCall> {
        tokio::select! {
            asked = self.context.models.ask(with, ask, within) => Some(asked),
            () = self.context.stopping.cancelled() => None,
        }
    }

    /// Without an operation.
    async fn view(&self) -> sqlx::Result<Result<BrowserView, ModelFailure>> {
        let live_handle = self.context.sessions.live_handle(self.waiting.driver);
        let names = live_handle.map(|live_handle| live_handle.files.attached_names()).unwrap_or_default();
        let files = names.iter().map(|name| name.as_str().to_owned()).collect();
        let shown = self.read(Operation::Snapshot(Snapshot { links: true })).await?.ok();
        let Some(page) = shown.and_then(|result| result.read::<PageSnapshot>().ok()) else {
            // A dialog is open, or has ended the read early.
            return Ok(match self.open_dialog().await {
                Ok(Some(dialog)) => {
                    let default =
                        dialog.default_value.as_deref().map(|text| format!(", with the default {}", quoted(text)));
                    let dialog = Some(format!("{}{}", describe_dialog(&dialog), default.unwrap_or_default()));
                    Ok(BrowserView { dialog, files, ..BrowserView::default() })
                }
                Ok(None) => Err(stopped("the page cannot be read: its browser has failed, is busy, or is gone")),
                Err(why) => Err(stopped(why)),
            });
        };
        let list = Operation::ListPages(ListPages { session: self.waiting.driver });
        let listed = self.read(list).await?.ok();
        let pages = listed.and_then(|result| result.read::<BrowserPages>().ok()).map(|pages| pages.data);
        let (page, pages) = (Some(page).filter(|page| page.url != BLANK), pages.unwrap_or_default());
        Ok(Ok(BrowserView { page, dialog: None, pages, files }))
    }
}

fn describe_page(page: &BrowserPage) -> String {
    let title = quoted(page.title.as_deref().unwrap_or_default());
    let active = if page.active { " (active)" } else { "" };
    format!("page {title} {}{active}", quoted(&page.url))
}

fn failed(why: &str) -> ModelFailure {
    ModelFailure::Failed(why.to_owned())
}

fn stopped(why: &str) -> ModelFailure {
    ModelFailure::Stopped(why.to_owned())
}

fn interrupted_outcome(unheard: ModelFailure, steps: &[Step]) -> PlanOutcome {
    let so_far = if steps.is_empty() {
        "Nothing was done"
    } else {
        "The completed steps remain in effect, and nothing more was done"
    };
    let (kind, reply) = match unheard {
        ModelFailure::Failed(why) => {
            (TurnKind::Clarify, format!("{so_far}, because the model could not be asked: {why}."))
        }
        ModelFailure::Budget(why) => (TurnKind::Refuse, format!("{so_far}, because {why}.")),
        ModelFailure::Stopped(why) => {
            let kind = if steps.is_empty() { TurnKind::Clarify } else { TurnKind::Plan };
            (kind, format!("{so_far}, because {why}."))
        }
    };
    PlanOutcome { kind, reply, candidates: Vec::new() }
}

/// For transcripts: the secrets of the model's steps are hidden.
fn shown(message: &str, steps: &[Step]) -> String {
    if steps.is_empty() {
        return hiding::unread(message);
    }
    let plan = steps.iter().map(|step| step.command.clone()).collect();
    hiding::shown(message, &commands::ParsedMessage::Plan(plan))
}

/// Blank ones are left out.
fn history(said: &[TurnTexts]) -> Vec<models::ConversationTurn<'_>> {
    let both = |said| {
        let TurnTexts { message, reply, .. }: &TurnTexts = said;
        [(ConversationRole::Customer, message), (ConversationRole::Agent, reply)]
    };
    let said = said.iter().flat_map(both).filter(|(_, text)| !text.trim().is_empty());
    said.map(|(by, text)| models::ConversationTurn { by, text }).collect()
}

fn describe_step(step: &Step) -> String {
    let what = steps::kind(&step.command);
    let about = match (&step.command, step.shown.first()) {
        (Command::Navigate { url }, _) => format!(" to {url}"),
        (_, Some(shown)) => format!(" {}", shown.description),
        (_, None) => String::new(),
    };
    let outcome = match (&step.command, &step.end.result) {
        (Command::Extract { .. } | Command::Wait { condition: WaitCondition::Download }, Some(result)) => {
            result.get().chars().take(RESULT_CHARS).collect()
        }
        // The step has led to a dialog.
        (_, Some(result)) if result.get().contains("\"dialog") => result.get().chars().take(RESULT_CHARS).collect(),
        _ => "done".to_owned(),
    };
    format!("{what}{about}: {outcome}")
}

impl Progress {
    fn add_view(&mut self, view: &BrowserView) {
        let BrowserView { page, dialog, pages, .. } = view;
        // A dialog does not say which page or frame it is of, and titles of other pages are not of this one.
        let titles = pages.iter().filter(|page| !page.active).filter_map(|page| page.title.as_ref());
        for text in dialog.iter().chain(titles) {
            self.sources.add("null", text);
        }
        if let Some(page) = page {
            self.sources.add(&page.url, &format!("{} {}", page.url, page.snapshot));
            // A text of a frame of another origin is also a text of that origin, which is never named.
            if !page.foreign.is_empty() {
                self.sources.add("null", &page.foreign);
            }
        }
        self.pages = pages.iter().map(|page| page.id).collect();
    }

    fn record_page_texts(&mut self, first: usize) {
        for step in &self.steps[first..] {
            if let (Command::Extract { .. }, Some(shown), Some(result)) =
                (&step.command, step.shown.first(), &step.end.result)
            {
                self.sources.add(&shown.origin, result.get());
            }
        }
    }
}

/// A step needs approval if the model, its address or its text requires it.
fn planned(steps: Vec<models::Step>, sources: &TextSources, pages: &[PageId]) -> Vec<Step> {
    let origins = text_origins(&steps, sources);
    let steps = steps.into_iter().zip(origins);
    let planned = |(step, text_origins): (models::Step, _)| {
        let needs_approval = step.needs_approval;
        Step { needs_approval, text_origins, ..Step::planned(into_command(step.action, pages)) }
    };
    steps.map(planned).collect()
}

enum PageInput<'a> {
    Text(&'a str),
    Key(char),
    /// Such as the clipboard's content.
    Unknown,
}

impl<'a> PageInput<'a> {
    fn by(action: &'a Action) -> Option<Self> {
        match action {
            Action::Type { value, .. } | Action::Fill { value, .. } => Some(Self::Text(value)),
            Action::Dialog { text, .. } => text.as_deref().map(Self::Text),
            Action::Upload { file, .. } => Some(Self::Text(file)),
            Action::Select { option, .. } => Some(Self::Text(option)),
            Action::Press { key } => Self::by_key(key),
            _ => None,
        }
    }

    /// Pages receive key events even when a modifier is held.
    fn by_key(key: &str) -> Option<Self> {
        let (held, key) = match key.rsplit_once('+') {
            Some((held, "")) => (held, "+"),
            Some((held, key)) => (held, key),
            None => ("", key),
        };
        let is_held = |modifier: &str| held.split('+').any(|held| held == modifier);
        let is_command = is_held("Control") || is_held("Meta");
        let is_function_key = key.strip_prefix('F').is_some_and(|number| number.parse::<u8>().is_ok());
        match (key, key.chars().next()) {
            ("Insert", _) if is_held("Shift") => Some(Self::Unknown),
            ("v" | "V", _) if is_command => Some(Self::Unknown),
            ("a" | "c" | "x" | "z", _) if is_command => None,
            _ if is_function_key => Some(Self::Unknown),
            ("Space", _) => Some(Self::Key(' ')),
            (_, Some(letter)) if key.chars().count() == 1 => Some(Self::Key(letter)),
            _ => None,
        }
    }
}

/// Where a step may enter its text without approval. Consecutive key presses count as one text.
fn text_origins(steps: &[models::Step], sources: &TextSources) -> Vec<Option<TextOrigins>> {
    let mut origins = Vec::with_capacity(steps.len());
    while let Some(step) = steps.get(origins.len()) {
        match PageInput::by(&step.action) {
            None => origins.push(None),
            Some(PageInput::Text(text)) => origins.push(sources.origins(text)),
            Some(PageInput::Unknown) => origins.push(Some(sources.origins_of_unknown())),
            Some(PageInput::Key(_)) => {
                let key = |step: &models::Step| match PageInput::by(&step.action) {
                    Some(PageInput::Key(letter)) => Some(letter),
                    _ => None,
                };
                let text: String = steps[origins.len()..].iter().map_while(key).collect();
                let of_text = sources.origins(&text);
                origins.extend(text.chars().map(|_| of_text.clone()));
            }
        }
    }
    origins
}

fn into_command(action: Action, pages: &[PageId]) -> Command {
    // The numbers were checked. A browser with one page is not listed, but has a page with the number 1.
    let page = |number: usize| pages.get(number - 1).map_or(PageQuery::Other, |id| PageQuery::Id(*id));
    match action {
        Action::DoubleTap { target } => Command::DoubleTap { target: query(target) },
        Action::LongPress { target } => Command::LongPress { target: query(target) },
        Action::Check { target, checked } => Command::Check { target: query(target), checked },
        Action::Fill { target, value } => Command::Fill { target: query(target), value },
        Action::Upload { target, file } => Command::Upload { target: query(target), file },
        Action::Drag { target, to, delta_x, delta_y } => {
            let to = to.map_or(DragEnd::By { delta_x, delta_y }, |end| DragEnd::Element(query(end)));
            Command::Drag { target: query(target), to }
        }
        Action::Swipe { direction, distance, target } => {
            Command::Swipe { direction, distance, target: target.map(query) }
        }
        Action::Hover { target } => Command::Hover { target: query(target) },
        Action::Dialog { accept, text } => Command::Dialog { accept, text },
        Action::SwitchPage { page: number } => Command::SwitchPage { page: page(number) },
        Action::ClosePage { page: number } => Command::ClosePage { page: number.map(page) },
        Action::SetLocation { latitude, longitude } => match models::location(latitude, longitude) {
            Some((latitude, longitude)) => Command::SetLocation { latitude, longitude },
            None => unreachable!("the position was checked"),
        },
        Action::Forward {} => Command::Forward,
        Action::Navigate { url } => Command::Navigate { url },
        Action::Tap { target } => Command::Tap { target: query(target) },
        Action::Type { target, value } => Command::Type { target: query(target), value },
        Action::Press { key } => Command::Press { key },
        Action::Select { target, option } => Command::Select { target: query(target), option },
        Action::Scroll { delta_x, delta_y, target } => Command::Scroll { delta_x, delta_y, target: target.map(query) },
        Action::Wait { condition } => {
            let condition = match condition {
                Condition::Visible { target } => WaitCondition::Visible(query(target)),
                Condition::Hidden { target } => WaitCondition::Hidden(query(target)),
                Condition::Url { pattern } => WaitCondition::Url(pattern),
                Condition::Time { ms } => WaitCondition::Time { ms },
                Condition::Download {} => WaitCondition::Download,
                Condition::Page {} => WaitCondition::Page,
            };
            Command::Wait { condition }
        }
        Action::Capture { capture } => Command::Capture { capture },
        Action::Extract { items } => {
            let item =
                |Item { name, target, attribute }| ExtractItem { name, target: query(target), attribute, list: false };
            Command::Extract { items: items.into_iter().map(item).collect() }
        }
        Action::Back {} => Command::Back,
        Action::Reload {} => Command::Reload,
    }
}

fn query(target: Ref) -> ElementQuery {
    ElementQuery::Ref(target.0)
}

fn round_to_ten_thousandth(cents: f64) -> f64 {
    (cents * 1e4).round() / 1e4
}
