//! Who watches a session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kitfleet_domain::agents::Mode;
use kitfleet_domain::agents::lanes::LaneState;
use kitfleet_domain::live::Admission;
use kitfleet_live::MOST_VIEWERS;
use kitfleet_live::messages::{Change, Driver, Refusal, Role};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Refusals that wait for their viewer; of more it learns nothing new.
const REFUSALS: usize = 16;

/// Seats that only those get who may act, so that whoever may only look keeps nobody from the wheel.
const KEPT_FOR_CONTROLLERS: usize = 4;

/// Which of a hub's viewers.
pub type SeatId = u64;

/// The viewers of one session.
#[derive(Default)]
pub struct Viewers {
    taken: Arc<OccupiedSlots>,
}

#[derive(Default)]
struct OccupiedSlots {
    all: Mutex<AllViewers>,
    /// Told whenever somebody leaves.
    left: Notify,
}

#[derive(Default)]
struct AllViewers {
    last: SeatId,
    seats: BTreeMap<SeatId, ViewerSlot>,
}

/// What the hub knows of a viewer.
struct ViewerSlot {
    admission: Arc<Admission>,
    control: watch::Sender<Option<Control>>,
    refusals: mpsc::Sender<(Refusal, &'static str)>,
    withdrawn: CancellationToken,
}

/// Who drives, and whether this viewer may act.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Seen from the viewer.
    pub driver: Driver,
    /// While nobody else acts.
    pub may_act: bool,
    /// How this viewer may change who drives.
    pub offers: Option<Change>,
}

/// What a viewer has. Dropping it leaves.
pub struct ViewerHandle {
    /// Which of the hub's.
    pub id: SeatId,
    /// Who it is.
    pub admission: Arc<Admission>,
    /// Who drives; `None` until somebody has looked.
    pub control: watch::Receiver<Option<Control>>,
    /// What was not carried out of what it sent.
    pub refusals: mpsc::Receiver<(Refusal, &'static str)>,
    /// Cancelled when it may not see this any more.
    pub withdrawn: CancellationToken,
    taken: Arc<OccupiedSlots>,
}

impl Drop for ViewerHandle {
    fn drop(&mut self) {
        self.taken.everybody().seats.remove(&self.id);
        self.taken.left.notify_one();
    }
}

impl OccupiedSlots {
    fn everybody(&self) -> MutexGuard<'_, AllViewers> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Viewers {
    /// A seat for somebody. `None` when all are taken.
    pub fn take(&self, admission: Admission) -> Option<ViewerHandle> {
        let mut everybody = self.taken.everybody();
        let kept = if admission.role == Role::Controller { KEPT_FOR_CONTROLLERS } else { 0 };
        if everybody.seats.len() >= MOST_VIEWERS + kept {
            return None;
        }
        everybody.last += 1;
        let (id, admission) = (everybody.last, Arc::new(admission));
        let ((control, controlled), (refusals, refused)) = (watch::channel(None), mpsc::channel(REFUSALS));
        let withdrawn = CancellationToken::new();
        let chair = ViewerSlot { admission: Arc::clone(&admission), control, refusals, withdrawn: withdrawn.clone() };
        everybody.seats.insert(id, chair);
        drop(everybody);
        let taken = Arc::clone(&self.taken);
        Some(ViewerHandle { id, admission, control: controlled, refusals: refused, withdrawn, taken })
    }

    /// Whether there is none for anybody.
    pub fn are_taken(&self) -> bool {
        self.taken.everybody().seats.len() >= MOST_VIEWERS + KEPT_FOR_CONTROLLERS
    }

    /// Whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.taken.everybody().seats.is_empty()
    }

    /// Whether this viewer is still there.
    pub fn has(&self, id: SeatId) -> bool {
        self.taken.everybody().seats.contains_key(&id)
    }

    /// Waits until somebody has left since this was last asked.
    pub async fn somebody_left(&self) {
        self.taken.left.notified().await;
    }

    /// All who watch.
    pub fn admissions(&self) -> Vec<Arc<Admission>> {
        self.taken.everybody().seats.values().map(|chair| Arc::clone(&chair.admission)).collect()
    }

    /// Tells those of these admissions to leave.
    pub fn withdraw(&self, admissions: &[Uuid]) {
        for chair in self.taken.everybody().seats.values() {
            if admissions.contains(&chair.admission.id) {
                chair.withdrawn.cancel();
            }
        }
    }

    /// Tells everybody who drives.
    pub fn tell_control(&self, standing: Option<&LaneState>) {
        for chair in self.taken.everybody().seats.values() {
            let control = Control::of(&chair.admission, standing);
            chair.control.send_if_modified(|before| before.replace(control) != Some(control));
        }
    }

    /// Whether this viewer is there, and may act as far as anybody has looked: its claim has looked, too.
    pub fn may_act(&self, id: SeatId) -> bool {
        let everybody = self.taken.everybody();
        everybody.seats.get(&id).is_some_and(|chair| chair.control.borrow().is_none_or(|control| control.may_act))
    }

    /// Tells a viewer that something was not carried out.
    pub fn refuse(&self, id: SeatId, reason: Refusal, detail: &'static str) {
        if let Some(chair) = self.taken.everybody().seats.get(&id) {
            // One that does not read has been told enough.
            let _ = chair.refusals.try_send((reason, detail));
        }
    }
}

impl Control {
    /// Whether this viewer's client has the lane.
    pub fn drives(admission: &Admission, standing: Option<&LaneState>) -> bool {
        let driver = standing.and_then(|standing| standing.driver.as_ref());
        admission.role == Role::Controller && driver.is_some() && admission.client_id.as_ref() == driver
    }

    fn of(admission: &Admission, standing: Option<&LaneState>) -> Self {
        let controls = admission.role == Role::Controller;
        let driver = match standing {
            None => Driver::Nobody,
            Some(LaneState { mode: Mode::Manual, .. }) => {
                if controls {
                    Driver::You
                } else {
                    Driver::Other
                }
            }
            Some(LaneState { mode: Mode::Pair, driver: Some(_) }) => {
                if Self::drives(admission, standing) {
                    Driver::You
                } else {
                    Driver::Other
                }
            }
            Some(_) => Driver::Agent,
        };
        let is_pair = standing.is_some_and(|standing| standing.mode == Mode::Pair);
        let offers = match driver {
            Driver::Agent => Some(Change::TakeOver),
            Driver::You => Some(Change::HandBack),
            Driver::Other | Driver::Nobody => None,
        };
        let offers = offers.filter(|_| is_pair && admission.takes_over);
        Self { driver, may_act: controls && matches!(driver, Driver::You | Driver::Nobody), offers }
    }
}
