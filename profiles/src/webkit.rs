//! Site data of WebKit as values: read from its database files, and written into new ones.
//!
//! WebKit never opens a database file from a customer: `SQLite` and WebKit trust its content, including names of files
//! to open or remove. An import contains values, from which new files are built here. Files that a browser of this
//! service has written may be passed to another one unchanged, if they have WebKit's own names.
//!
//! The formats are those of WebKitGTK 2.50, which later versions read too. Data in a newer format is left out, and
//! reported.

pub mod capture;
pub mod databases;
pub mod key_paths;
pub mod keys;
pub mod names;
pub mod rebuilding;
mod schema;
pub mod text;
pub mod values;

mod bytes;
#[cfg(test)]
mod tests;
