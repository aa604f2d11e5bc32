//! Independent tasks over the threads of the current rayon pool, each thread with its own reused scratch.
//! Tasks never split a sum, so the number of threads changes no result.

use std::{
    cell::Cell,
    marker::PhantomData,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use treasure_core::{lend, until};

use super::Aligned;

/// Buffers a thread keeps between tasks.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Rows of activations at a fixed stride.
    pub rows: Aligned,
    /// One row before it is copied there.
    pub row: Aligned,
    /// The same in words.
    pub words: Aligned,
    /// One scale per row of bytes.
    pub scales: Vec<f32>,
    /// Two tiles of results.
    pub tiles: [Aligned; 2],
    /// A widened block of a panel.
    pub wide: Aligned,
    /// Rows of a panel out of a file, before they are turned.
    pub lines: Aligned,
    /// Packed keys.
    pub keys: Aligned,
    /// Packed values.
    pub values: Aligned,
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = const { Cell::new(None) };
}

/// Runs `work` with this thread's scratch.
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.take().unwrap_or_default();
    let result = work(&mut scratch);
    SCRATCH.set(Some(scratch));
    result
}

/// Runs `work(task, scratch, state)` for every task; a thread passes the same `state` to all its tasks,
/// so that it can remember what its scratch holds. `cost` is a rough number of operations: cheap work
/// stays on the calling thread.
pub(crate) fn for_each_task<S: Default>(
    tasks: usize,
    cost: usize,
    work: impl Fn(usize, &mut Scratch, &mut S) + Sync,
) {
    // Under Miri, which is to see threads share a matrix, any.
    const WORTH_A_THREAD: usize = if cfg!(miri) { 0 } else { 1 << 20 };
    let next = AtomicUsize::new(0);
    let run = || {
        with_scratch(|scratch| {
            let mut state = S::default();
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    break;
                }
                work(task, scratch, &mut state);
            }
        });
    };
    let helpers = (rayon::current_num_threads().min(tasks)).saturating_sub(1);
    if helpers == 0 || cost < WORTH_A_THREAD {
        run();
        return;
    }
    rayon::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(|_| run());
        }
        run();
    });
}

/// Runs a search that nobody shares batches with on a thread of a pool, so that its many short calls neither wait
/// until a thread is woken nor sleep until the pool is done. Changes time and nothing else.
///
/// One at a time; who comes meanwhile stays where it is. The pool is its own: a thread of the common one that waits
/// for part of a batch takes up other work meanwhile, and a whole search, which may itself wait for somebody, must
/// not come to lie on another's batch.
pub fn on_a_worker<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static POOL: OnceLock<Option<rayon::ThreadPool>> = OnceLock::new();
    static TAKEN: AtomicBool = AtomicBool::new(false);
    /// Searches nest deeply enough to want more than a thread's usual stack.
    const STACK: usize = 16 << 20;
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            TAKEN.store(false, Ordering::Release);
        }
    }
    let threads = rayon::current_num_threads();
    let there = rayon::current_thread_index().is_some() || threads < 2;
    if there || TAKEN.swap(true, Ordering::Acquire) {
        return work();
    }
    let _leave = Leave;
    let builder = || rayon::ThreadPoolBuilder::new().num_threads(threads).stack_size(STACK);
    match POOL.get_or_init(|| builder().build().ok()) {
        Some(pool) => lend(|stopped| pool.install(|| until(stopped, work))),
        None => work(),
    }
}

/// A row-major matrix that several tasks write at once, each its own spots.
pub(crate) struct Shared<'a> {
    start: *mut f32,
    len: usize,
    stride: usize,
    borrow: PhantomData<&'a mut [f32]>,
}

// SAFETY: the only access is `spot`, whose callers promise that no two live spots overlap, so threads never
// reach the same float.
unsafe impl Sync for Shared<'_> {}
// SAFETY: it stands for a mutable borrow of floats, which may move to another thread.
unsafe impl Send for Shared<'_> {}

impl<'a> Shared<'a> {
    /// Shares a matrix with `stride` floats per row.
    pub fn new(matrix: &'a mut [f32], stride: usize) -> Self {
        Self { start: matrix.as_mut_ptr(), len: matrix.len(), stride, borrow: PhantomData }
    }

    /// `width` floats from column `column` of row `row` on.
    ///
    /// # Safety
    /// No two live spots may overlap.
    #[expect(clippy::mut_from_ref, reason = "the caller promises disjoint spots")]
    pub unsafe fn spot(&self, row: usize, column: usize, width: usize) -> &mut [f32] {
        let end = row
            .checked_mul(self.stride)
            .and_then(|start| start.checked_add(column))
            .and_then(|start| start.checked_add(width));
        assert!(column + width <= self.stride && end.is_some_and(|end| end <= self.len));
        // SAFETY: the spot was just found to lie in the matrix that is borrowed mutably for `'a`; the caller
        // promises that no live spot overlaps it.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(row * self.stride + column), width) }
    }
}
