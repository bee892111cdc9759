use std::fmt;
use std::net::Ipv6Addr;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use url::Host;
use utoipa::ToSchema;

use super::{OperationOutput, OperationSpec, Parameters, Secrets, UsageKind};
use crate::timestamp::Timestamp;
use crate::validation::{Invalid, Rules};

const MAX_COOKIES: usize = 1_000;
/// Browsers ignore larger cookies (RFC 6265bis, section 5.6).
const PAIR_BYTES: usize = 4 * 1024;
const PATH_BYTES: usize = 1024;
/// Maximum length of a host in characters, without the dot before it.
const HOST_CHARS: usize = 253;
/// Names with such prefixes have rules of their own. Browsers compare them without case.
const SECURE_PREFIX: &str = "__secure-";
const HOST_PREFIX: &str = "__host-";

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GetCookies {}

impl Parameters for GetCookies {
    const SPEC: OperationSpec = OperationSpec {
        kind: "state_capture",
        route: Some("cookies"),
        usage: Some(UsageKind::StateCapture),
        ..OperationSpec::READS
    };
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetCookies {
    /// Replaces by name, domain and path. The values are sealed during transfer.
    pub cookies: Vec<BrowserCookie>,
}

impl Parameters for SetCookies {
    const SPEC: OperationSpec = OperationSpec { kind: "unknown", route: Some("cookies"), ..OperationSpec::READS };

    fn take_secrets(&mut self) -> Option<Secrets> {
        let values = self.cookies.iter_mut().map(|cookie| std::mem::take(&mut cookie.value)).collect();
        Some(Secrets { cookie_values: Some(values), ..Secrets::default() })
    }

    fn restore_secrets(&mut self, secrets: Secrets) {
        for (cookie, value) in self.cookies.iter_mut().zip(secrets.cookie_values.unwrap_or_default()) {
            cookie.value = value;
        }
    }
}

/// Deletes the cookies that match all members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteCookies {
    pub name: Option<String>,
    /// Domain of the cookies. Without a leading dot, cookies with one match as well.
    pub domain: Option<String>,
    pub path: Option<String>,
}

impl Parameters for DeleteCookies {
    const SPEC: OperationSpec = OperationSpec { kind: "unknown", route: Some("cookies"), ..OperationSpec::READS };
}

pub struct CookieParams {
    pub name: String,
    pub value: String,
    pub domain: String,
    pub path: Option<String>,
    pub expires: Option<Timestamp>,
    pub http_only: bool,
    pub secure: bool,
    pub same_site: Option<SameSite>,
}

impl SetCookies {
    pub fn parse(cookies: Vec<CookieParams>) -> Result<Self, Invalid> {
        if !(1..=MAX_COOKIES).contains(&cookies.len()) {
            return Err(Invalid::field("cookies", format!("must have 1 to {MAX_COOKIES} cookies")));
        }
        let mut rules = Rules::default();
        let parse = |(at, cookie)| parse_cookie(&mut rules, at, cookie);
        let cookies = cookies.into_iter().enumerate().map(parse).collect();
        rules.check()?;
        Ok(Self { cookies })
    }

    /// A browser would delete an expired cookie.
    pub fn check_expiry(&self, now: DateTime<Utc>) -> Result<(), Invalid> {
        let mut rules = Rules::default();
        for (at, cookie) in self.cookies.iter().enumerate() {
            let is_later = cookie.expires.is_none_or(|expires| expires.0.timestamp() > now.timestamp());
            rules.require(is_later, &format!("cookies.{at}.expires"), "must be in the future");
        }
        rules.check()
    }
}

impl DeleteCookies {
    pub fn parse(name: Option<&str>, domain: Option<&str>, path: Option<&str>) -> Result<Self, Invalid> {
        let mut rules = Rules::default();
        if let Some(name) = name {
            require_name(&mut rules, name, "name");
        }
        let parsed = domain.map(|domain| parse_domain(domain).ok_or(DOMAIN_MESSAGE)).transpose();
        rules.require(parsed.is_ok(), "domain", DOMAIN_MESSAGE);
        if let Some(path) = path {
            require_path(&mut rules, path, "path");
        }
        rules.check()?;
        let domain = parsed.unwrap_or_default();
        Ok(Self { name: name.map(str::to_owned), domain, path: path.map(str::to_owned) })
    }

    #[must_use]
    pub fn matches(&self, cookie: &BrowserCookie) -> bool {
        let is_of =
            |domain: &String| *domain == cookie.domain || cookie.domain.strip_prefix('.') == Some(domain.as_str());
        self.name.as_ref().is_none_or(|name| *name == cookie.name)
            && self.domain.as_ref().is_none_or(is_of)
            && self.path.as_ref().is_none_or(|path| *path == cookie.path)
    }
}

const DOMAIN_MESSAGE: &str = "must be a host name or an IP address, without a scheme or a port. A leading dot is for \
                              host names only, and includes subdomains";

fn parse_cookie(rules: &mut Rules, at: usize, params: CookieParams) -> BrowserCookie {
    let CookieParams { name, value, domain, path, expires, http_only, secure, same_site } = params;
    let field = |member: &str| format!("cookies.{at}.{member}");
    require_name(rules, &name, &field("name"));
    let is_value = is_sendable(&value) && value.trim_matches([' ', '\t']) == value;
    let message = "must have neither control characters nor `;`, and no spaces at its ends";
    rules.require(is_value, &field("value"), message);
    let is_small = name.len() + value.len() <= PAIR_BYTES;
    rules.require(is_small, &field("value"), format!("must have at most {PAIR_BYTES} bytes with the name"));
    let parsed = parse_domain(&domain);
    rules.require(parsed.is_some(), &field("domain"), DOMAIN_MESSAGE);
    let domain = parsed.unwrap_or_default();
    let path = path.unwrap_or_else(|| "/".to_owned());
    require_path(rules, &path, &field("path"));
    let prefixed = name.to_ascii_lowercase();
    let is_host = prefixed.starts_with(HOST_PREFIX);
    let needs_secure = is_host || prefixed.starts_with(SECURE_PREFIX);
    rules.require(secure || !needs_secure, &field("secure"), "must be true for a name with this prefix");
    rules.require(path == "/" || !is_host, &field("path"), "must be / for a name with the prefix __Host-");
    let message = "must have no leading dot for a name with the prefix __Host-";
    rules.require(!domain.starts_with('.') || !is_host, &field("domain"), message);
    BrowserCookie { name, value, domain, path, expires, http_only, secure, same_site: same_site.unwrap_or_default() }
}

fn require_name(rules: &mut Rules, name: &str, field: &str) {
    let is_name = !name.is_empty() && is_sendable(name) && !name.contains('=') && name.trim() == name;
    let message = "must be 1 to 4096 bytes without `=`, `;`, control characters, and spaces at its ends";
    rules.require(is_name && name.len() <= PAIR_BYTES, field, message);
}

fn require_path(rules: &mut Rules, path: &str, field: &str) {
    let is_path = path.starts_with('/') && is_sendable(path) && path.len() <= PATH_BYTES;
    let message =
        format!("must begin with `/` and have at most {PATH_BYTES} bytes, without `;` and control characters");
    rules.require(is_path, field, message);
}

/// Browsers take more characters than servers should send (RFC 6265bis, section 5.6).
fn is_sendable(text: &str) -> bool {
    !text.chars().any(|c| (c.is_control() && c != '\t') || c == ';')
}

/// Lower case, Punycode, and an IPv6 address without brackets.
fn parse_domain(text: &str) -> Option<String> {
    let (dot, host) = text.strip_prefix('.').map_or(("", text), |host| (".", host));
    if host.contains('%') {
        return None;
    }
    let address = |address: String| dot.is_empty().then_some(address);
    if let Ok(parsed) = host.parse::<Ipv6Addr>() {
        return address(parsed.to_string());
    }
    match Host::parse(host).ok()? {
        Host::Domain(name) => {
            let labels = name.strip_suffix('.').unwrap_or(&name);
            let is_host = labels.len() <= HOST_CHARS && !labels.split('.').any(str::is_empty);
            is_host.then(|| format!("{dot}{name}"))
        }
        // Other spellings of an address are no host of a cookie.
        Host::Ipv4(parsed) => address(parsed.to_string()).filter(|address| address == host),
        Host::Ipv6(parsed) => address(parsed.to_string()),
    }
}

/// `SameSite` of a cookie
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SameSite {
    /// Sent with requests of the same site only.
    Strict,
    /// Also sent when a link of another site leads to the site.
    Lax,
    /// Sent with all requests, as cookies are that do not have the attribute.
    #[default]
    None,
}

/// Cookie of a session's browser
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionCookie, example = json!({
    "name": "theme", "value": "dark", "domain": "example.com", "path": "/", "expires": "2027-11-20T18:05:00.000Z",
    "http_only": false, "secure": true, "same_site": "lax",
}))]
pub struct BrowserCookie {
    pub name: String,
    #[serde(default)]
    #[schema(required = true)]
    pub value: String,
    /// Host of the cookie; with a leading dot also its subdomains
    pub domain: String,
    pub path: String,
    /// Time at which the browser deletes the cookie, in whole seconds; null for a cookie that lasts as long as the browser
    #[schema(value_type = Option<String>, format = DateTime, required = true)]
    pub expires: Option<Timestamp>,
    /// True if scripts cannot read the cookie
    pub http_only: bool,
    /// True if the cookie is sent over TLS only
    pub secure: bool,
    /// `SameSite` of the cookie; `none` also for a cookie without the attribute
    pub same_site: SameSite,
}

/// Prints no value, so that it never reaches a log.
impl fmt::Debug for BrowserCookie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserCookie").field("domain", &self.domain).finish_non_exhaustive()
    }
}

impl BrowserCookie {
    #[must_use]
    pub fn replaces(&self, other: &Self) -> bool {
        self.name == other.name && self.domain == other.domain && self.path == other.path
    }
}

/// Cookies of a session's browser
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SessionCookies, example = json!({"data": [{
    "name": "theme", "value": "dark", "domain": "example.com", "path": "/", "expires": null, "http_only": false, "secure": true,
    "same_site": "lax",
}]}))]
pub struct BrowserCookies {
    /// Cookies of all hosts
    pub data: Vec<BrowserCookie>,
}

impl OperationOutput for BrowserCookies {
    fn weight(&self) -> usize {
        let bytes =
            |cookie: &BrowserCookie| cookie.name.len() + cookie.value.len() + cookie.domain.len() + cookie.path.len();
        self.data.iter().map(bytes).sum()
    }
}

/// Result of a change of cookies, which has no members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CookiesChanged {}

impl OperationOutput for CookiesChanged {}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(name: &str, domain: &str) -> CookieParams {
        CookieParams {
            name: name.to_owned(),
            value: "v".to_owned(),
            domain: domain.to_owned(),
            path: None,
            expires: None,
            http_only: false,
            secure: false,
            same_site: None,
        }
    }

    fn fields(cookies: Vec<CookieParams>) -> Vec<String> {
        let Err(Invalid(errors)) = SetCookies::parse(cookies) else { return Vec::new() };
        errors.into_iter().map(|error| error.field).collect()
    }

    #[test]
    fn domains_have_the_form_of_browsers() {
        for (text, expected) in [
            ("Example.COM", Some("example.com")),
            (".example.com", Some(".example.com")),
            ("b\u{fc}cher.example", Some("xn--bcher-kva.example")),
            ("localhost", Some("localhost")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("[::1]", Some("::1")),
            ("0:0::1", Some("::1")),
            (".127.0.0.1", None),
            (".::1", None),
            ("1", None),
            ("", None),
            (".", None),
            ("..example.com", None),
            ("a..b", None),
            ("example.com:80", None),
            ("https://example.com", None),
            ("exa mple.com", None),
            ("%61.example", None),
        ] {
            assert_eq!(parse_domain(text).as_deref(), expected, "{text}");
        }
        assert_eq!(parse_domain(&format!("{}example", "a.".repeat(200))), None);
    }

    #[test]
    fn invalid_cookies_are_named() {
        assert!(fields(vec![params("a", "example.com"), params("quoted", ".example.com")]).is_empty());
        for name in ["", "a=b", "a;b", " a", "a\n"] {
            assert_eq!(
                fields(vec![params("a", "a.example"), params(name, "a.example")]),
                ["cookies.1.name"],
                "{name:?}"
            );
        }
        for value in ["a;b", " a", "a\r", "a\u{7f}"] {
            assert_eq!(
                fields(vec![CookieParams { value: value.to_owned(), ..params("a", "a.example") }]),
                ["cookies.0.value"]
            );
        }
        // Real sites set them.
        let quoted = CookieParams { value: "{\"a\": \"b, c\"}".to_owned(), ..params("a", "a.example") };
        assert!(fields(vec![quoted]).is_empty());
        let long = CookieParams { value: "x".repeat(PAIR_BYTES), ..params("a", "a.example") };
        assert_eq!(fields(vec![long]), ["cookies.0.value"]);
        let path = CookieParams { path: Some("x".to_owned()), ..params("a", "a.example") };
        assert_eq!(fields(vec![path]), ["cookies.0.path"]);
        assert_eq!(fields(Vec::new()), ["cookies"]);
        assert_eq!(fields((0..=MAX_COOKIES).map(|_| params("a", "a.example")).collect()), ["cookies"]);
    }

    #[test]
    fn prefixes_of_names_have_their_rules() {
        assert_eq!(fields(vec![params("__Secure-a", "a.example")]), ["cookies.0.secure"]);
        let host = CookieParams { path: Some("/x".to_owned()), ..params("__HOST-a", ".a.example") };
        assert_eq!(fields(vec![host]), ["cookies.0.secure", "cookies.0.path", "cookies.0.domain"]);
        let good = CookieParams { secure: true, ..params("__Host-a", "a.example") };
        assert!(fields(vec![good]).is_empty());
    }

    #[test]
    fn expired_cookie_is_invalid() {
        let at = |seconds| Timestamp(DateTime::from_timestamp(seconds, 999_000_000).expect("a time"));
        let cookie = |expires| CookieParams { expires, ..params("a", "a.example") };
        let set = SetCookies::parse(vec![cookie(None), cookie(Some(at(101))), cookie(Some(at(100)))]).expect("cookies");
        let Err(Invalid(errors)) = set.check_expiry(at(100).0) else { panic!("the last one has expired") };
        assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), ["cookies.2.expires"]);
    }

    #[test]
    fn secrets_are_taken_and_restored() {
        let mut set = SetCookies::parse(vec![CookieParams { value: "secret".to_owned(), ..params("a", "a.example") }])
            .expect("cookies");
        let before = set.cookies.clone();
        let secrets = set.take_secrets().expect("secrets");
        let stored = serde_json::to_string(&set).expect("JSON");
        assert!(!stored.contains("secret"), "{stored}");
        let mut restored: SetCookies = serde_json::from_str(&stored).expect("the same type");
        restored.restore_secrets(secrets);
        assert_eq!(restored.cookies, before);
        assert!(!format!("{restored:?}").contains("secret"));
    }

    #[test]
    fn cookies_match_all_given_members() {
        let cookie = |domain: &str| {
            let parsed = SetCookies::parse(vec![params("a", domain)]).expect("a cookie");
            parsed.cookies[0].clone()
        };
        let matches = |name, domain, path, cookie: &BrowserCookie| {
            DeleteCookies::parse(name, domain, path).expect("members").matches(cookie)
        };
        let (own, shared) = (cookie("a.example"), cookie(".a.example"));
        for given in [&own, &shared] {
            assert!(matches(None, None, None, given));
            assert!(matches(Some("a"), Some("A.example"), Some("/"), given));
            assert!(!matches(Some("b"), Some("a.example"), None, given));
            assert!(!matches(None, Some("example"), None, given));
            assert!(!matches(None, None, Some("/x"), given));
        }
        assert!(matches(None, Some(".a.example"), None, &shared) && !matches(None, Some(".a.example"), None, &own));
        assert!(DeleteCookies::parse(Some(""), Some("a:1"), Some("x")).is_err_and(|Invalid(errors)| errors.len() == 3));
    }
}
