//! Crypto orders that nobody tells of, and periods that are over (contract: billing 41, 42).

use kitfleet_domain::billing::ipn::PaymentNotice;
use kitfleet_domain::billing::orders::{self, StaleOrder};
use kitfleet_jobs::billing::crypto;
use kitfleet_payments::CryptoProcessor;
use serde::Serialize;
use sqlx::PgPool;

/// Orders that are looked at together.
const BATCH: i64 = 100;
/// After so many that it did not answer one after the other the processor is not asked any more.
const MOST_SILENCES: u32 = 3;

/// What a sweep has come to.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SweepCounts {
    /// Orders that were paid, of which nobody had told.
    pub paid: u64,
    /// Orders that have failed.
    pub failed: u64,
    /// Orders of which the processor did not say how they stand: they are asked about again.
    pub unanswered: u64,
    /// Orders whose period was over.
    pub lapsed: u64,
}

/// Asks the processor about every order that has waited for long, and ends it; and ends every period that is over.
///
/// # Errors
/// When the database fails.
pub async fn sweep(db: &PgPool, processor: &CryptoProcessor) -> sqlx::Result<SweepCounts> {
    let mut swept = SweepCounts::default();
    while crypto::end_lapsed(&mut *db.acquire().await?).await? {
        swept.lapsed += 1;
    }
    let (age, mut after, mut silent) = (processor.config().sweep_after, None, 0);
    loop {
        let stale = orders::stale(&mut *db.acquire().await?, age, after, BATCH).await?;
        let Some(last) = stale.last() else { return Ok(swept) };
        after = Some(last.id);
        for order in stale {
            match processor.look_up(&order.payment_id).await {
                Ok(said) => end(db, processor, order, said, &mut swept).await?,
                Err(error) => {
                    tracing::warn!(%error, order = %order.id, "cannot read an order's status from the crypto processor");
                    swept.unanswered += 1;
                    silent = if error.is_silence() { silent + 1 } else { 0 };
                    if silent == MOST_SILENCES {
                        return Ok(swept);
                    }
                }
            }
        }
    }
}

/// Ends an order as the processor says. No connection was held while it was asked.
async fn end(
    db: &PgPool,
    processor: &CryptoProcessor,
    order: StaleOrder,
    said: Option<PaymentNotice>,
    swept: &mut SweepCounts,
) -> sqlx::Result<()> {
    let mut conn = db.acquire().await?;
    if let Some(notice) = said.as_ref().filter(|notice| notice.payment_status == "finished") {
        let notice = PaymentNotice { order_id: Some(order.id), ..notice.clone() };
        crypto::take(&mut conn, &notice, processor.config().period).await?;
    }
    if crypto::give_up(&mut conn, order.id, said.as_ref()).await? {
        swept.failed += 1;
    } else {
        swept.paid += 1;
    }
    Ok(())
}
