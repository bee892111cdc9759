use kitfleet_host_protocol::{HostCommand, Navigated, PageEntry, SubmissionRule, WaitUntil};
use kitfleet_types::ids::{PageId, SessionId};
use kitfleet_types::operations::{ActivatePage, BrowserPage, BrowserPages, ClosePage, OpenPage, PageClosed, Refusal};
use tokio::time::sleep;

use super::OperationEnd;
use super::page::POLL;
use super::webkit::Webkit;

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
