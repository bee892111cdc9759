use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use kitfleet_host_protocol::{HostCommand, Navigated, PageEntry, SubmissionRule, WaitUntil};
use kitfleet_types::ids::{PageId, SessionId};
use kitfleet_types::operations::{ActivatePage, BrowserPage, BrowserPages, ClosePage, OpenPage, PageClosed, Refusal};
use tokio::time::sleep;

use super::OperationEnd;
use super::host::HostHandle;
use super::page::POLL;
use super::webkit::Webkit;

const FIRST_PAGE: u32 = 1;

/// At the begin of the last two operations, for a wait for a new page.
pub struct NewestPages {
    before: u32,
    now: Arc<AtomicU32>,
}

impl NewestPages {
    pub fn new() -> Self {
        Self { before: FIRST_PAGE, now: Arc::new(AtomicU32::new(FIRST_PAGE)) }
    }

    /// The future reads the newest page, and must be polled before the operation.
    pub fn begin(&mut self, line: HostHandle) -> impl Future<Output = ()> + Send + use<> {
        self.before = self.now.load(Ordering::Relaxed);
        let now = Arc::clone(&self.now);
        async move {
            // An error means that the browser has ended, which the operation notices.
            if let Ok(pages) = line.call::<Vec<PageEntry>>(HostCommand::Pages).await {
                now.fetch_max(newest(&pages), Ordering::Relaxed);
            }
        }
    }

    /// Also a page that was open when this operation began.
    fn has_new(&self, pages: &[PageEntry]) -> bool {
        newest(pages).max(self.now.load(Ordering::Relaxed)) > self.before
    }
}

fn newest(pages: &[PageEntry]) -> u32 {
    pages.iter().map(|page| page.id).max().unwrap_or_default()
}

impl Webkit {
    pub(super) async fn pages(&self, session: SessionId) -> Result<BrowserPages, OperationEnd> {
        let data = self.page_entries().await?.into_iter().map(|page| shape(session, page)).collect();
        Ok(BrowserPages { data })
    }

    pub(super) async fn open_page(&mut self, open: &OpenPage) -> Result<BrowserPage, OperationEnd> {
        let opened: PageEntry = self.host.call(HostCommand::OpenPage).await?;
        if let Some(url) = &open.url {
            let command = HostCommand::Navigate { uri: url.as_str().to_owned(), until: WaitUntil::Load };
            let dialogs = self.dialogs.clone();
            let loaded = tokio::select! {
                loaded = self.load(command) => Some(loaded),
                _ = dialogs.opened() => None,
            };
            match loaded {
                Some(Ok(Navigated { error: Some(error), .. })) => return Err(self.not_loaded(&error)),
                // As after a navigation.
                Some(Ok(_)) => {
                    self.hold_submissions(SubmissionRule::AllowAll).await?;
                }
                // The load continues after the answer to the dialog.
                Some(Err(OperationEnd::Refused(Refusal::DialogOpen { .. }))) | None => {}
                Some(Err(ended)) => return Err(ended),
            }
        }
        let found = self.page_entries().await?.into_iter().find(|page| page.id == opened.id);
        // A page can close itself.
        Ok(shape(open.session, found.unwrap_or(PageEntry { active: false, ..opened })))
    }

    pub(super) async fn activate_page(&mut self, activate: &ActivatePage) -> Result<BrowserPage, OperationEnd> {
        let ActivatePage { session, page } = *activate;
        let number = number_of(page, session)?;
        self.host.call::<()>(HostCommand::ActivatePage { page: number }).await?;
        let found = self.page_entries().await?.into_iter().find(|page| page.id == number);
        found.map(|page| shape(session, page)).ok_or(OperationEnd::Refused(Refusal::NoPage))
    }

    pub(super) async fn close_page(&mut self, close: &ClosePage) -> Result<PageClosed, OperationEnd> {
        let page = number_of(close.page, close.session)?;
        self.host.call::<()>(HostCommand::ClosePage { page }).await?;
        Ok(PageClosed {})
    }

    pub(super) async fn wait_for_page(&self) -> Result<(), OperationEnd> {
        while !self.newest_pages.has_new(&self.page_entries().await?) {
            sleep(POLL).await;
        }
        Ok(())
    }

    async fn page_entries(&self) -> Result<Vec<PageEntry>, OperationEnd> {
        self.ask_host(HostCommand::Pages).await
    }
}

fn number_of(page: PageId, session: SessionId) -> Result<u32, OperationEnd> {
    page.number_in(session).ok_or(OperationEnd::Refused(Refusal::NoPage))
}

fn shape(session: SessionId, page: PageEntry) -> BrowserPage {
    let PageEntry { id, uri, title, active, opener } = page;
    BrowserPage {
        id: PageId::of(session, id),
        url: uri,
        title: title.map(|title| title.replace('\0', "\u{FFFD}")),
        active,
        opener_id: opener.map(|opener| PageId::of(session, opener)),
    }
}
