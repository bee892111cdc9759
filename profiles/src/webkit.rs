//! What WebKit keeps of a site, as values: read from its database files, and written into new ones.
//!
//! Nothing of a customer's ever reaches WebKit as a database file. `SQLite` and WebKit believe what such a file says, down to the
//! names of files that are to be opened or removed; so what an import brings are values, of which files are made anew here.
//! What a browser of ours has written may be given to another one as it is, when its names are WebKit's own.
//!
//! The formats are those of WebKitGTK 2.50. A later one reads them too, and what it has written in a later format is left
//! out of what is read here, and told of.

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
