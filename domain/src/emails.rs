//! Mails to customers (interface, "Transactional emails" and "Email preferences"): what is to be sent, what was, and what
//! they do not want.

mod address;

pub use address::EmailAddress;
