//! Cookies of a browser.

use std::time::SystemTime;

use chrono::DateTime;
use kitfleet_host_protocol::{self as protocol, CookiesSet, HostCommand};
use kitfleet_types::operations::{BrowserCookie, BrowserCookies, CookiesChanged, DeleteCookies, SameSite, SetCookies};
use kitfleet_types::timestamp::Timestamp;
use kitfleet_types::validation::{Invalid, Rules};
use serde_json::Map;

use super::OperationEnd;
use super::reading::LAST_SECOND;
use super::webkit::Webkit;

impl Webkit {
    pub(super) async fn cookies(&mut self) -> Result<BrowserCookies, OperationEnd> {
        let listed: Vec<protocol::Cookie> = self.host.call(HostCommand::Cookies { at_most: None }).await?;
        Ok(BrowserCookies { data: listed.into_iter().map(of_browser).collect() })
    }

    pub(super) async fn set_cookies(&mut self, set: &SetCookies) -> Result<CookiesChanged, OperationEnd> {
        check_expiry(set)?;
        let cookies = set.cookies.iter().map(to_browser).collect();
        let CookiesSet { public_suffixes, dropped } = self.host.call(HostCommand::SetCookies { cookies }).await?;
        let mut rules = Rules::default();
        for at in public_suffixes {
            let message = "must not be a public suffix: browsers keep no cookies of it";
            rules.require(false, &format!("cookies.{at}.domain"), message);
        }
        for at in dropped {
            rules.require(false, &format!("cookies.{at}"), "was not kept by the browser");
        }
        rules.check().map_err(invalid)?;
        Ok(CookiesChanged {})
    }

    pub(super) async fn delete_cookies(&mut self, delete: &DeleteCookies) -> Result<CookiesChanged, OperationEnd> {
        let DeleteCookies { name, domain, path } = delete.clone();
        self.host.call::<()>(HostCommand::DeleteCookies { cookie: name, domain, path }).await?;
        Ok(CookiesChanged {})
    }
}

/// By the clock of this machine and its browsers.
pub(super) fn check_expiry(set: &SetCookies) -> Result<(), OperationEnd> {
    set.check_expiry(SystemTime::now().into()).map_err(invalid)
}

fn invalid(invalid: Invalid) -> OperationEnd {
    OperationEnd::Invalid { invalid, members: Map::new() }
}

fn of_browser(cookie: protocol::Cookie) -> BrowserCookie {
    let protocol::Cookie { name, value, domain, path, expires, secure, http_only, same_site } = cookie;
    let expires = expires.and_then(|seconds| DateTime::from_timestamp(seconds.min(LAST_SECOND), 0)).map(Timestamp);
    let same_site = match same_site.as_str() {
        "Strict" => SameSite::Strict,
        "Lax" => SameSite::Lax,
        _ => SameSite::None,
    };
    BrowserCookie { name, value, domain, path, expires, http_only, secure, same_site }
}

fn to_browser(cookie: &BrowserCookie) -> protocol::Cookie {
    let BrowserCookie { name, value, domain, path, expires, http_only, secure, same_site } = cookie.clone();
    let same_site = match same_site {
        SameSite::Strict => "Strict",
        SameSite::Lax => "Lax",
        SameSite::None => "None",
    };
    let expires = expires.map(|expires| expires.0.timestamp());
    protocol::Cookie { name, value, domain, path, expires, secure, http_only, same_site: same_site.to_owned() }
}
