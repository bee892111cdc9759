//! Detects the fields of a form and fills them with key events.

use std::time::{Duration, Instant};

use kitfleet_host_protocol::{Lifecycle, SubmissionRule};
use kitfleet_types::operations::{Login, LoginResult, Search, SearchResult};
use tokio::time::{sleep, timeout};

use super::OperationEnd;
use super::input::typing::{ExistingText, keys_of};
use super::page::{POLL, PageQuery, Use};
use super::webkit::{Webkit, milliseconds};

/// Between two pages of a login there is no password field either.
const OUTCOME_STABLE_FOR: Duration = Duration::from_millis(500);

/// For the steps after typing.
const RESERVE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Typing {
    Done,
    Truncated,
}

struct Form {
    step: Duration,
    typing_ends: Instant,
}

impl Form {
    fn new(step: Duration, work: Duration, started: Instant) -> Self {
        let reserve = RESERVE.min(work / 10);
        Self { step, typing_ends: started + work.saturating_sub(reserve) }
    }
}

impl Webkit {
    pub(super) async fn search(&mut self, search: &Search, started: Instant) -> Result<SearchResult, OperationEnd> {
        self.hold_submissions(SubmissionRule::AllowAll).await?;
        let form = Form::new(search.step_timeout, search.work, started);
        let field = PageQuery::chosen(search.search_selector.as_deref(), "search_selector", Use::Search);
        match self.fill(field, &search.query, "query", &form).await? {
            None => return Err(OperationEnd::invalid("search_selector", "no search field was found")),
            Some(Typing::Truncated) => {
                return Ok(SearchResult {
                    submitted: false,
                    query_truncated: true,
                    results_visible: None,
                    duration_ms: milliseconds(started),
                    dialogs: Vec::new(),
                    dialog: None,
                });
            }
            Some(Typing::Done) => {}
        }
        if search.submit {
            self.press_enter().await?;
        }
        let results_visible = match &search.wait_for_results_selector {
            Some(selector) => {
                let results = PageQuery::Selector { selector, field: "wait_for_results_selector" };
                Some(self.appears(results, search.step_timeout).await?)
            }
            None => None,
        };
        Ok(SearchResult {
            submitted: search.submit,
            query_truncated: false,
            results_visible,
            duration_ms: milliseconds(started),
            dialogs: Vec::new(),
            dialog: None,
        })
    }

    pub(super) async fn login(&mut self, login: &Login, started: Instant) -> Result<LoginResult, OperationEnd> {
        self.hold_submissions(SubmissionRule::AllowAll).await?;
        let form = Form::new(login.step_timeout, login.work, started);
        let username = PageQuery::chosen(login.username_selector.as_deref(), "username_selector", Use::Username);
        let password = PageQuery::chosen(login.password_selector.as_deref(), "password_selector", Use::Password);
        let truncated = || LoginResult {
            submitted: false,
            credentials_truncated: true,
            logged_in: false,
            post_login_url: None,
            duration_ms: milliseconds(started),
            dialogs: Vec::new(),
            dialog: None,
        };

        // A site that remembers the user shows only the password field. A two-step login shows only the user name first.
        match self.fill(username, &login.username, "username", &form).await? {
            Some(Typing::Truncated) => return Ok(truncated()),
            Some(Typing::Done) if self.shows(password).await? != Some(true) => self.submit(login).await?,
            Some(Typing::Done) => {}
            None if self.shows(password).await? == Some(true) => {}
            None => return Err(OperationEnd::invalid("username_selector", "no login form was found")),
        }
        self.is_sensitive = true;
        match self.fill(password, &login.password, "password", &form).await? {
            None => return Err(OperationEnd::invalid("password_selector", "no password field was found")),
            Some(Typing::Truncated) => return Ok(truncated()),
            Some(Typing::Done) => self.submit(login).await?,
        }

        let logged_in = match &login.success_selector {
            Some(selector) => {
                let success = PageQuery::Selector { selector, field: "success_selector" };
                self.appears(success, login.step_timeout).await?
            }
            None => within(login.step_timeout, self.leaves(password)).await?.is_some(),
        };
        Ok(LoginResult {
            submitted: true,
            credentials_truncated: false,
            logged_in,
            post_login_url: Some(self.address().await?),
            duration_ms: milliseconds(started),
            dialogs: Vec::new(),
            dialog: None,
        })
    }

    /// `None` when there is no such field.
    async fn fill(
        &mut self,
        field: PageQuery<'_>,
        text: &str,
        named: &str,
        form: &Form,
    ) -> Result<Option<Typing>, OperationEnd> {
        // A line break would submit the form.
        let keys = keys_of(&text.replace(['\r', '\n', '\t'], " "), named, false)?;
        if within(form.step, self.focus(field, ExistingText::Replace)).await?.is_none() {
            return Ok(None);
        }
        let pauses = self.pace.typing(keys.len(), form.step);
        let left = form.typing_ends.saturating_duration_since(Instant::now());
        let typed = within(left, self.type_keys(keys, pauses)).await?;
        Ok(Some(if typed.is_some() { Typing::Done } else { Typing::Truncated }))
    }

    /// Submits a login form with the caller's button, with a detected button, or with Enter.
    async fn submit(&mut self, login: &Login) -> Result<(), OperationEnd> {
        let button = PageQuery::chosen(login.submit_selector.as_deref(), "submit_selector", Use::Submit);
        let is_chosen = login.submit_selector.is_some();
        if is_chosen || self.shows(button).await? == Some(true) {
            return match within(login.step_timeout, self.tap(button)).await? {
                None if is_chosen => {
                    Err(OperationEnd::invalid("submit_selector", "no button was found that can be tapped"))
                }
                None => self.press_enter().await,
                Some(()) => Ok(()),
            };
        }
        self.press_enter().await
    }

    async fn press_enter(&mut self) -> Result<(), OperationEnd> {
        Ok(self.press(vec!["Enter".to_owned()]).await?)
    }

    async fn appears(&mut self, target: PageQuery<'_>, patience: Duration) -> Result<bool, OperationEnd> {
        let appears = async {
            while self.shows(target).await? != Some(true) {
                sleep(POLL).await;
            }
            Ok(())
        };
        Ok(within(patience, appears).await?.is_some())
    }

    /// No visible password field for [`OUTCOME_STABLE_FOR`].
    async fn leaves(&mut self, password: PageQuery<'_>) -> Result<(), OperationEnd> {
        let mut since = Instant::now();
        while since.elapsed() < OUTCOME_STABLE_FOR {
            let is_loading = self.page().await?.lifecycle == Some(Lifecycle::Loading);
            if is_loading || self.shows(password).await? != Some(false) {
                since = Instant::now();
            }
            sleep(POLL).await;
        }
        Ok(())
    }
}

/// `None` when `work` takes longer than `patience`.
async fn within<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, OperationEnd>>,
) -> Result<Option<T>, OperationEnd> {
    match timeout(patience, work).await {
        Ok(done) => done.map(Some),
        Err(_) => Ok(None),
    }
}
