//! Reports of a page about the input that it has handled.

use std::cell::{Cell, RefCell};

use futures_channel::oneshot;

#[derive(Default)]
pub struct Acknowledgements {
    pub keys: Cell<usize>,
    pub touches: Cell<usize>,
    /// Movements of fingers.
    pub movements: Cell<usize>,
    /// Lifted fingers whose click the page prevented.
    pub refusals: Cell<usize>,
    pub clicks: Cell<usize>,
    /// Pointers that were pressed, released or moved away.
    pub pointers: Cell<usize>,
    /// Fingers that reached the marked node.
    pub hits: Cell<usize>,
    /// No marked node was reached.
    pub misses: Cell<usize>,
    /// The marked node had moved away, so the page did not receive the click.
    pub strays: Cell<usize>,
    /// Fingers that touched an element with `draggable`.
    pub draggables: Cell<usize>,
    /// Those whose default action the page prevented.
    pub undraggables: Cell<usize>,
    /// Movements of a drag that the page has received.
    pub drags: Cell<usize>,
    waiting: RefCell<Vec<oneshot::Sender<()>>>,
}

impl Acknowledgements {
    pub fn note(&self, report: &str) {
        let add = |count: &Cell<usize>| count.set(count.get() + 1);
        match report {
            "key" => add(&self.keys),
            "click" => add(&self.clicks),
            "pointer" => add(&self.pointers),
            "hit" => add(&self.hits),
            "miss" => add(&self.misses),
            "stray" => add(&self.strays),
            "draggable" => add(&self.draggables),
            "undraggable" => add(&self.undraggables),
            "drag" => add(&self.drags),
            "moved" => add(&self.movements),
            "touch" => add(&self.touches),
            "refused" => {
                add(&self.touches);
                add(&self.refusals);
            }
            _ => {}
        }
        self.wake();
    }

    pub fn wake(&self) {
        for waiting in self.waiting.take() {
            // The receiver may have been dropped.
            let _ = waiting.send(());
        }
    }

    pub(super) fn next(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push(sender);
        receiver
    }
}
