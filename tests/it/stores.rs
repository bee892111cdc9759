//! Stores of profile contents, in the database and in an object store (contract: profiles).

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use futures_util::{TryStreamExt as _, stream};
use kitfleet_domain::vault::Vault;
use kitfleet_profiles::{
    Cookie, Document, DocumentError, DocumentInfo, Dump, PlaceConfig, ReadError, SaveError, Saved, Stores, StoresConfig,
};
use kitfleet_types::ids::{AccountId, ProfileId, StoreId};
use kitfleet_types::tiers::Tier;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::App;
use crate::support::database::Database;
use crate::support::s3::{S3, SECRET};
use crate::support::storage;

const MIB: u64 = 1024 * 1024;
const LOCAL: &str = "localstorage/https_shop.example_0.localstorage";
const INDEXED: &str = "databases/indexeddb/v1/https_shop.example_0/8D9001D32C6A703D95921A77115050F33DD823D3F1730BD35215DCBECAD6DC20/1.blob";

/// What stores need.
struct Profile {
    id: ProfileId,
    key: Vec<u8>,
}

impl Profile {
    fn new(stores: &Stores) -> Self {
        let id = ProfileId::generate();
        Self { id, key: stores.new_key(id) }
    }
}

struct Setting {
    database: Database,
    s3: S3,
    scratch: TempDir,
}

impl Setting {
    async fn new() -> Self {
        Self { database: Database::create().await, s3: S3::start().await, scratch: folder() }
    }

    fn places(&self) -> [PlaceConfig; 2] {
        [PlaceConfig::Database, PlaceConfig::Objects(self.s3.objects(SECRET))]
    }

    fn config(&self, place: PlaceConfig) -> StoresConfig {
        let scratch = self.scratch.path().join("not there yet");
        StoresConfig { vault: None, place, scratch, store_bytes: 256 * MIB, document_bytes: 300 * MIB }
    }

    async fn stores(&self, config: StoresConfig) -> Stores {
        Stores::new(self.database.pool.clone(), config).await.expect("a database")
    }

    async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&self.database.pool).await.expect("a count")
    }

    /// No store, chunk or object.
    async fn assert_empty(&self) {
        assert_eq!(self.count("select count(*) from profile_stores").await, 0);
        assert_eq!(self.count("select count(*) from profile_store_chunks").await, 0);
        assert_eq!(self.s3.files(), [] as [std::path::PathBuf; 0]);
    }

    async fn run(&self, change: &'static str) {
        sqlx::query(change).execute(&self.database.pool).await.expect("a change");
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn cookie() -> Cookie {
    Cookie {
        name: "sid".to_owned(),
        value: "s3cr3t".to_owned(),
        domain: "shop.example".to_owned(),
        path: "/".to_owned(),
        expires: None,
        secure: true,
        http_only: true,
        same_site: "Lax".to_owned(),
    }
}

fn noise(bytes: u64) -> Vec<u8> {
    let mut noise = Vec::new();
    fs::File::open("/dev/urandom").expect("noise").take(bytes).read_to_end(&mut noise).expect("noise");
    noise
}

/// One file of a site has this content.
fn browser(content: &[u8]) -> TempDir {
    let folder = folder();
    for (path, content) in [(LOCAL, content), (INDEXED, b"indexed")] {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }
    folder
}

fn dump(browser: &TempDir) -> Dump {
    Dump { cookies: vec![cookie()], files: browser.path().to_owned().into() }
}

async fn save(stores: &Stores, profile: &Profile, content: &[u8]) -> Saved {
    let browser = browser(content);
    stores.save(profile.id, &profile.key, dump(&browser)).await.expect("a store")
}

async fn restore(stores: &Stores, profile: &Profile, store: StoreId) -> Result<(Vec<Cookie>, Vec<u8>), ReadError> {
    let into = folder();
    let cookies = stores.restore(profile.id, &profile.key, store, into.path()).await?;
    assert_eq!(fs::read(into.path().join(INDEXED)).expect("a file"), b"indexed");
    Ok((cookies, fs::read(into.path().join(LOCAL)).expect("a file")))
}

/// Contract: profiles 8, 9. The store is encrypted under the profile's own key.
#[tokio::test]
async fn stored_contents_are_restored_from_either_backend() {
    let setting = Setting::new().await;
    for place in setting.places() {
        let stores = setting.stores(setting.config(place)).await;
        let profile = Profile::new(&stores);
        for content in [b"small".to_vec(), noise(3 * MIB), noise(20 * MIB)] {
            let saved = save(&stores, &profile, &content).await;
            assert!(u64::try_from(saved.size_bytes).is_ok_and(|size| size > content.len() as u64 / 2));
            let (cookies, read) = restore(&stores, &profile, saved.id).await.expect("a store");
            assert!(cookies == [cookie()] && read == content);

            let other = Profile::new(&stores);
            let stolen = Profile { id: other.id, key: profile.key.clone() };
            for wrong in [&other, &stolen] {
                let refused = restore(&stores, wrong, saved.id).await;
                assert!(matches!(refused, Err(ReadError::Sealed | ReadError::Damaged)), "{refused:?}");
            }
            let copied = stores
                .copy(AccountId::generate(), (profile.id, &profile.key, saved.id), (other.id, &other.key))
                .await
                .expect("a copy");
            assert!(restore(&stores, &profile, copied.id).await.is_err());
            assert!(
                restore(&stores, &other, copied.id)
                    .await
                    .is_ok_and(|(cookies, read)| { cookies == [cookie()] && read == content })
            );
        }
    }
    let sealed: Vec<Vec<u8>> = sqlx::query_scalar("select bytes from profile_store_chunks")
        .fetch_all(&setting.database.pool)
        .await
        .expect("chunks");
    let objects = setting.s3.files().into_iter().map(|file| fs::read(file).expect("an object"));
    for bytes in sealed.into_iter().chain(objects) {
        assert!(!bytes.windows(6).any(|some| some == b"s3cr3t"));
    }
    assert_eq!(setting.count("select count(*) from profile_stores where size_bytes = 0").await, 0);
    setting.database.drop().await;
}

/// Contract: profiles 13. The reason of `session.profile_save_failed` is `too_large`.
#[tokio::test]
async fn store_above_the_size_limit_leaves_nothing() {
    let setting = Setting::new().await;
    for place in setting.places() {
        let stores = setting.stores(StoresConfig { store_bytes: 11 * MIB, ..setting.config(place) }).await;
        let profile = Profile::new(&stores);
        let browser = browser(&noise(12 * MIB));
        let refused = stores.save(profile.id, &profile.key, dump(&browser)).await;
        assert!(matches!(refused, Err(SaveError::TooLarge(_))), "{refused:?}");
        // The limit applies to the compressed size, but the uncompressed size has a limit as well, because it must fit on a
        // worker's disk.
        fs::File::options()
            .write(true)
            .open(browser.path().join(LOCAL))
            .expect("a file")
            .set_len(2048 * MIB)
            .expect("room");
        let refused = stores.save(profile.id, &profile.key, dump(&browser)).await;
        assert!(matches!(refused, Err(SaveError::TooLarge(_))), "{refused:?}");
    }
    setting.assert_empty().await;
    setting.database.drop().await;
}

/// Reasons of `session.profile_save_failed`: `degenerate_dump`, `serialize_failed`, `seal_failed`.
#[tokio::test]
async fn empty_or_unreadable_contents_create_no_store() {
    let setting = Setting::new().await;
    let stores = setting.stores(setting.config(PlaceConfig::Database)).await;
    let profile = Profile::new(&stores);
    let empty = folder();
    fs::create_dir_all(empty.path().join("localstorage")).expect("a folder");
    fs::write(empty.path().join(LOCAL), "").expect("a file");
    let none = |files: &Path| Dump { cookies: Vec::new(), files: files.to_owned().into() };
    let refused = stores.save(profile.id, &profile.key, none(empty.path())).await;
    assert!(matches!(refused, Err(SaveError::Empty)), "{refused:?}");
    let refused = stores.save(profile.id, &profile.key, none(&empty.path().join("gone"))).await;
    assert!(matches!(refused, Err(SaveError::Serialize(_))), "{refused:?}");
    let browser = browser(b"x");
    let refused = stores.save(ProfileId::generate(), &profile.key, dump(&browser)).await;
    assert!(matches!(refused, Err(SaveError::Seal)), "{refused:?}");
    setting.assert_empty().await;
    setting.database.drop().await;
}

/// Reason of `session.profile_save_failed`: `upload_failed`.
#[tokio::test]
async fn rejected_upload_is_reported_and_leaves_nothing() {
    let setting = Setting::new().await;
    let stores = setting.stores(setting.config(PlaceConfig::Objects(setting.s3.objects("another secret")))).await;
    let profile = Profile::new(&stores);
    let browser = browser(&noise(9 * MIB));
    let refused = stores.save(profile.id, &profile.key, dump(&browser)).await;
    assert!(matches!(refused, Err(SaveError::Upload(_))), "{refused:?}");
    // The row stays until a sweep has checked that no object exists.
    assert_eq!(setting.count("select count(*) from profile_stores where removable_at is not null").await, 1);
    setting.run("update profile_stores set removable_at = now()").await;
    assert_eq!(stores.sweep(10).await.expect("a database"), 0);
    assert_eq!(setting.count("select count(*) from profile_stores where removable_at > now()").await, 1);
    setting.run("update profile_stores set removable_at = now()").await;
    let stores = setting.stores(setting.config(PlaceConfig::Objects(setting.s3.objects(SECRET)))).await;
    assert_eq!(stores.sweep(10).await.expect("a database"), 1);
    setting.assert_empty().await;
    setting.database.drop().await;
}

/// Contract: profiles 9.
#[tokio::test]
async fn modified_store_is_rejected() {
    let setting = Setting::new().await;
    let stores = setting.stores(setting.config(PlaceConfig::Database)).await;
    let profile = Profile::new(&stores);
    let changes = [
        "delete from profile_store_chunks where place = 2",
        "delete from profile_store_chunks where place = 0",
        "delete from profile_store_chunks",
        "update profile_store_chunks set bytes = set_byte(bytes, 500, 255 - get_byte(bytes, 500)) where place = 1",
        "update profile_store_chunks set place = 5 where place = 1",
        "update profile_store_chunks c set bytes = o.bytes from profile_store_chunks o where o.place = 0 and c.place = 1",
    ];
    for change in changes {
        let saved = save(&stores, &profile, &noise(5 * MIB / 2)).await;
        setting.run(change).await;
        let refused = restore(&stores, &profile, saved.id).await;
        assert!(matches!(refused, Err(ReadError::Damaged)), "{change}: {refused:?}");
        setting.run("delete from profile_stores").await;
    }
    let gone = restore(&stores, &profile, StoreId::generate()).await;
    assert!(matches!(gone, Err(ReadError::Io(_))), "{gone:?}");
    setting.database.drop().await;
}

/// Contract: profiles 15. Stores that are being read are not removed.
#[tokio::test]
async fn unreferenced_stores_are_removed() {
    let setting = Setting::new().await;
    for place in setting.places() {
        let stores = setting.stores(setting.config(place)).await;
        let profile = Profile::new(&stores);
        let mut saved = Vec::new();
        for _ in 0..4 {
            saved.push(save(&stores, &profile, b"x").await.id);
        }
        // An unreferenced store is removed after an hour at the earliest, because a new reference may follow.
        stores.remove(saved[0]).await.expect("a database");
        assert_eq!(stores.sweep(10).await.expect("a database"), 0);
        setting.run("update profile_stores set removable_at = now()").await;
        sqlx::query("update profile_stores set removable_at = null where id = $1")
            .bind(saved[0].as_uuid())
            .execute(&setting.database.pool)
            .await
            .expect("a reference");
        // A transaction reads the store.
        let mut reader = setting.database.pool.begin().await.expect("a transaction");
        sqlx::query("select from profile_stores where id = $1 for key share")
            .bind(saved[1].as_uuid())
            .execute(&mut *reader)
            .await
            .expect("a lock");
        stores.remove(saved[1]).await.expect("a database");
        stores.remove(saved[2]).await.expect("a database");
        assert_eq!(stores.sweep(10).await.expect("a database"), 1);
        for (store, is_there) in saved.iter().zip([true, true, false, false]) {
            assert_eq!(restore(&stores, &profile, *store).await.is_ok(), is_there);
        }
        reader.rollback().await.expect("a transaction");
        stores.remove(saved[1]).await.expect("a database");
        setting.run("update profile_stores set removable_at = now()").await;
        assert_eq!(stores.sweep(10).await.expect("a database"), 1);
        setting.assert_empty().await;
    }
    setting.database.drop().await;
}

/// Contract: profiles 23. A browser could not have such cookies by its rules.
#[tokio::test]
async fn cookies_above_the_limits_are_not_stored() {
    let setting = Setting::new().await;
    let stores = setting.stores(setting.config(PlaceConfig::Database)).await;
    let profile = Profile::new(&stores);
    let browser = browser(b"x");
    let save = async |cookies: Vec<Cookie>| {
        stores.save(profile.id, &profile.key, Dump { cookies, files: browser.path().to_owned().into() }).await
    };
    let fat = |bytes| Cookie { value: "v".repeat(bytes), ..cookie() };
    let kept = async |cookies| {
        let saved = save(cookies).await.expect("a store");
        restore(&stores, &profile, saved.id).await.expect("a store").0
    };
    // Above a limit, the last cookies are kept.
    let numbered = |n: usize, hosts: usize| {
        let cookie = move |n| Cookie { name: format!("n{n}"), domain: format!("h{}.example", n % hosts), ..cookie() };
        (0..n).map(cookie).collect::<Vec<_>>()
    };
    assert_eq!(kept(numbered(12_000, 1)).await, numbered(12_000, 1)[9_000..]);
    assert_eq!(kept(numbered(12_000, 12)).await, numbered(12_000, 12)[2_000..]);
    let many: Vec<_> =
        numbered(5_000, 2).into_iter().map(|cookie| Cookie { value: "v".repeat(4_000), ..cookie }).collect();
    let some = kept(many.clone()).await;
    assert!((4_000..4_200).contains(&some.len()) && many.ends_with(&some), "{}", some.len());
    let odd = Cookie { domain: ".".to_owned(), ..cookie() };
    let saved = save(vec![cookie(), fat(4_097), odd]).await.expect("a store");
    assert_eq!(restore(&stores, &profile, saved.id).await.expect("a store").0, [cookie()]);
    setting.database.drop().await;
}

/// Contract: profiles 22. Each running export has a thread and a file. Unread exports of one account do not block another
/// account.
#[tokio::test]
async fn concurrent_exports_are_limited_per_account_and_in_total() {
    let setting = Setting::new().await;
    let stores = setting.stores(setting.config(PlaceConfig::Database)).await;
    let profile = Profile::new(&stores);
    let left = folder();
    storage::write(&left.path().join(LOCAL), [("a".to_owned(), "x".repeat(2_000_000))]);
    let saved = stores.save(profile.id, &profile.key, dump(&left)).await.expect("a store");
    let within = async |limit, about: &DocumentInfo| {
        let exported = stores.export(about.clone(), &profile.key, Some(saved.id));
        tokio::time::timeout(limit, exported).await.map(|document| document.expect("a document"))
    };
    // Longer than an export takes on a busy machine, and shorter than the timeout of a waiting export.
    let export = async |about: &DocumentInfo| within(Duration::from_secs(20), about).await.expect("an export slot");
    let waits = async |about: &DocumentInfo| within(Duration::from_secs(1), about).await.is_err();
    let mut unread = Vec::new();
    for _ in 0..8 {
        let account = about(&profile);
        unread.extend([export(&account).await, export(&account).await]);
        assert!(waits(&account).await, "an account started a third export");
    }
    let another = about(&profile);
    assert!(waits(&another).await, "an export started although all slots are taken");
    unread.pop();
    let document = export(&another).await.try_collect::<Vec<Bytes>>().await.expect("a whole document");
    assert!(serde_json::from_slice::<Value>(&document.concat()).is_ok());
    setting.database.drop().await;
}

/// Contract: profiles 9. The retired key can be dropped after `profiles rotate-keys`.
#[tokio::test]
async fn profiles_survive_a_change_of_the_deployment_key() {
    let app = App::simulated().start().await;
    let client = app.client_with(Tier::ApiScale, &["account_owner"]).await;
    for name in ["One", "Two"] {
        client.post("/v1/profiles", json!({"name": name})).await.expect(201);
    }
    let scratch = folder();
    let stores = |vault| {
        let (place, scratch) = (PlaceConfig::Database, scratch.path().to_owned());
        let config = StoresConfig { vault, place, scratch, store_bytes: MIB, document_bytes: MIB };
        Stores::new(app.database.pool.clone(), config)
    };
    let key = async || {
        let (id, key): (uuid::Uuid, Vec<u8>) =
            sqlx::query_as("select id, sealed_key from profiles order by id limit 1")
                .fetch_one(&app.database.pool)
                .await
                .expect("a profile");
        Profile { id: id.into(), key }
    };
    let (first, second) = ([1; 32], [2; 32]);
    let before = stores(Some(Vault::new(first, &[]))).await.expect("a database");
    let saved = save(&before, &key().await, b"x").await;
    // Keys that were sealed without a deployment key or with a retired one can still be decrypted.
    assert_eq!(before.rotate_keys().await.expect("a database").resealed, 2);
    let between = stores(Some(Vault::new(second, &[first]))).await.expect("a database");
    assert!(restore(&between, &key().await, saved.id).await.is_ok());
    let after = stores(Some(Vault::new(second, &[]))).await.expect("a database");
    assert!(restore(&after, &key().await, saved.id).await.is_err());
    assert_eq!(after.rotate_keys().await.expect("a database").unreadable, 2);
    assert_eq!(between.rotate_keys().await.expect("a database").resealed, 2);
    assert!(restore(&after, &key().await, saved.id).await.is_ok());

    // The deployment under test has none of these keys, and its command reports that.
    let told = app.run(&["profiles", "rotate-keys", "--json"]).await.code(1).json();
    assert_eq!(told, json!({"resealed": 0, "unreadable": 2}));
    app.stop().await;
}

fn about(profile: &Profile) -> DocumentInfo {
    DocumentInfo {
        exported_at: serde_json::from_value(json!("2026-11-21T00:00:00Z")).expect("a time"),
        profile: profile.id,
        account: AccountId::generate(),
        name: "Shop".to_owned(),
        archetype: "iphone".to_owned(),
    }
}

/// Reads a document that arrives in pieces of this size.
async fn read(stores: &Stores, document: Bytes, piece: usize) -> Result<Document, DocumentError> {
    let pieces: Vec<_> = document.chunks(piece).map(|piece| Ok::<_, String>(document.slice_ref(piece))).collect();
    stores.read_document(AccountId::generate(), stream::iter(pieces), &mut Vec::new()).await
}

/// Contract: profiles 20.
#[tokio::test]
async fn exported_profile_can_be_imported_elsewhere() {
    let (here, there) = (Setting::new().await, Setting::new().await);
    let stores = here.stores(here.config(PlaceConfig::Database)).await;
    let profile = Profile::new(&stores);
    let items = vec![("a".to_owned(), "x".repeat(1_000_000)), ("ü\0".to_owned(), "\u{1f600}\0\"".to_owned())];
    let left = folder();
    storage::write(&left.path().join(LOCAL), items.clone());
    let saved = stores.save(profile.id, &profile.key, dump(&left)).await.expect("a store");
    let exported = stores.export(about(&profile), &profile.key, Some(saved.id)).await.expect("a document");
    let pieces: Vec<Bytes> = exported.try_collect().await.expect("a whole document");
    assert!(pieces.iter().all(|piece| piece.len() <= 64 * 1024));
    let document = Bytes::from(pieces.concat());
    let told: Value = serde_json::from_slice(&document).expect("JSON");
    assert_eq!((&told["format"], &told["version"]), (&json!("kitfleet.profile"), &json!(2)));
    assert_eq!((&told["cookies"], &told["left_out"]), (&json!([cookie()]), &json!([])));
    assert_eq!(told["origins"][0]["origin"], "https://shop.example");
    assert_eq!(told["origins"][0]["local_storage"], json!(items));

    for place in there.places() {
        let stores = there.stores(there.config(place)).await;
        let profile = Profile::new(&stores);
        let read = read(&stores, document.clone(), 10_000).await.expect("a document");
        assert_eq!(read.source_profile_id.as_deref(), told["source_profile_id"].as_str());
        let saved = stores.save(profile.id, &profile.key, read.dump.expect("contents")).await.expect("a store");
        let into = folder();
        let cookies = stores.restore(profile.id, &profile.key, saved.id, into.path()).await.expect("a store");
        assert_eq!((cookies, storage::read(&into.path().join(LOCAL))), (vec![cookie()], items.clone()));
    }
    for setting in [here, there] {
        // No temporary file is left.
        assert_eq!(fs::read_dir(setting.scratch.path().join("not there yet")).expect("a folder").count(), 0);
        setting.database.drop().await;
    }
}

/// Creates an `IndexedDB` file of a browser that refers to this blob file.
fn indexed_database(path: &Path, blob: &str) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    let database = rusqlite::Connection::open(path).expect("a database");
    // The statements below do not depend on the order of keys.
    database.create_collation("IDBKEY", str::cmp).expect("an order");
    database.execute_batch(include_str!("support/indexed.sql")).expect("the tables");
    database.execute("insert into BlobFiles values ('blob:x', ?1)", [blob]).expect("a row");
}

#[tokio::test]
async fn database_with_paths_outside_its_folder_is_not_stored() {
    let setting = Setting::new().await;
    let stores = setting.stores(setting.config(PlaceConfig::Database)).await;
    let profile = Profile::new(&stores);
    let left = browser(b"x");
    let of_name = |hash: char| {
        let folder = format!("databases/indexeddb/v1/https_shop.example_0/{}", hash.to_string().repeat(64));
        left.path().join(folder).join("IndexedDB.sqlite3")
    };
    let strange = [("A", "../../../../x"), ("B", "/etc/passwd"), ("C", "1.blob/../x"), ("D", "1.blob\0")];
    for (hash, file) in strange {
        let path = of_name(hash.chars().next().expect("a character"));
        indexed_database(&path, file);
    }
    let good = of_name('E');
    indexed_database(&good, "12.blob");
    fs::write(left.path().join("localstorage/hosts"), "strange").expect("a file");
    fs::write(left.path().join(format!("{LOCAL}-journal")), "strange").expect("a file");
    let saved = stores.save(profile.id, &profile.key, dump(&left)).await.expect("a store");
    let into = folder();
    stores.restore(profile.id, &profile.key, saved.id, into.path()).await.expect("a store");
    let at = |path: &Path| into.path().join(path.strip_prefix(left.path()).expect("a file of the browser's"));
    assert!(at(&good).exists() && into.path().join(LOCAL).exists() && into.path().join(INDEXED).exists());
    for hash in ['A', 'B', 'C', 'D'] {
        assert!(!at(&of_name(hash)).exists(), "{hash}");
    }
    assert_eq!(fs::read_dir(into.path().join("localstorage")).expect("a folder").count(), 1);
    setting.database.drop().await;
}

/// Contract: profiles 20, 21. The store of another profile is rejected as well.
#[tokio::test]
async fn truncated_or_oversized_document_is_rejected() {
    let setting = Setting::new().await;
    let stores = setting.stores(StoresConfig { document_bytes: 4_000, ..setting.config(PlaceConfig::Database) }).await;
    let profile = Profile::new(&stores);
    let empty = stores.export(about(&profile), &profile.key, None).await.expect("a document");
    let empty = Bytes::from(empty.try_collect::<Vec<Bytes>>().await.expect("a whole document").concat());
    assert!(read(&stores, empty.clone(), 7).await.is_ok_and(|read| read.dump.is_none()));
    let large = Bytes::from([&empty[..], " ".repeat(4_000).as_bytes()].concat());
    assert!(matches!(read(&stores, large, 512).await, Err(DocumentError::TooLarge(4_000))));
    let cut = read(&stores, empty.slice(..empty.len() - 1), 100).await;
    assert!(matches!(cut, Err(DocumentError::Malformed(_))), "{cut:?}");
    let broken = stream::iter([Ok(empty), Err("the client is gone")]);
    assert!(matches!(
        stores.read_document(AccountId::generate(), broken, &mut Vec::new()).await,
        Err(DocumentError::Body(_))
    ));

    let saved = save(&stores, &profile, b"x").await;
    let other = Profile::new(&stores);
    let refused = stores.export(about(&other), &other.key, Some(saved.id)).await;
    assert!(matches!(refused.map(drop), Err(ReadError::Damaged)));
    setting.database.drop().await;
}

/// Contract: profiles 23.
#[tokio::test]
async fn memory_does_not_grow_with_profile_contents() {
    let peak = || {
        let status = fs::read_to_string("/proc/self/status").expect("a process");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak").trim().to_owned();
        line.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).expect("a number") / 1024
    };
    let setting = Setting::new().await;
    let item = |n: u64| (n.to_string(), BASE64.encode(noise(200_000)));
    let [small, large] = [1, 200].map(|items| {
        let browser = folder();
        storage::write(&browser.path().join(LOCAL), (0..items).map(item));
        browser
    });
    for (place, allowed) in setting.places().into_iter().zip([32, 64]) {
        let stores = setting.stores(setting.config(place)).await;
        let in_and_out = async |browser: &TempDir| {
            let (profile, into) = (Profile::new(&stores), folder());
            let saved = stores.save(profile.id, &profile.key, dump(browser)).await.expect("a store");
            stores.restore(profile.id, &profile.key, saved.id, into.path()).await.expect("a store");
            let exported = stores.export(about(&profile), &profile.key, Some(saved.id)).await.expect("a document");
            let read = stores.read_document(AccountId::generate(), exported, &mut Vec::new()).await;
            let read = read.expect("a document").dump.expect("contents");
            stores.save(profile.id, &profile.key, read).await.expect("a store");
        };
        // The memory that is needed independently of the contents.
        in_and_out(&small).await;
        let before = peak();
        in_and_out(&large).await;
        let grown = peak() - before;
        assert!(grown < allowed, "{grown} MiB more");
    }
    setting.database.drop().await;
}
