//! Site data of WebKit as values: read from its database files, and written into new ones.
//!
//! WebKit never opens a database file from a customer. `SQLite` and WebKit trust the content of such a file, including names of
//! files to open or remove. An import therefore contains values, from which new files are built here. Files that a browser of
//! this service has written may be passed to another one unchanged, if they have WebKit's own names.
//!
//! The formats are those of WebKitGTK 2.50. Later versions read them too. Data that a later version has written in a newer
//! format is left out when it is read here, and reported.

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
