//! Errors of pages in the types of the contract.

use kitfleet_host_protocol as protocol;
use kitfleet_types::operations::{PageError, PageErrorKind};

pub fn page_error(error: protocol::PageError) -> PageError {
    let kind = match error.kind {
        protocol::PageErrorKind::Http => PageErrorKind::Http,
        protocol::PageErrorKind::Tls => PageErrorKind::Tls,
        protocol::PageErrorKind::Dns => PageErrorKind::Dns,
        protocol::PageErrorKind::Net => PageErrorKind::Net,
        protocol::PageErrorKind::Timeout => PageErrorKind::Timeout,
    };
    PageError { kind, http_status: error.http_status, message: error.message }
}
