//! A background thread with a queue of jobs.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread;

/// Bytes of the thread's stack.
const STACK_BYTES: usize = 256 << 10;

/// A thread that runs jobs one after the other. It is started for the first job.
pub(super) struct Worker<J: 'static> {
    name: &'static str,
    /// Most jobs in the queue.
    jobs_max: usize,
    work: fn(J),
    has_thread: OnceLock<bool>,
    /// The queued jobs. A channel of the standard library needs an alignment that no server's allocator has.
    jobs: Mutex<VecDeque<J>>,
    /// Notified of every new job.
    has_job: Condvar,
}

impl<J: Send> Worker<J> {
    /// Returns a worker whose thread has a name and does `work` for each job.
    pub(super) const fn new(name: &'static str, jobs_max: usize, work: fn(J)) -> Self {
        Self {
            name,
            jobs_max,
            work,
            has_thread: OnceLock::new(),
            jobs: Mutex::new(VecDeque::new()),
            has_job: Condvar::new(),
        }
    }

    /// Queues a job. Returns it if the thread cannot be started or too many jobs are queued.
    pub(super) fn queue(&'static self, job: J) -> Option<J> {
        let has_thread = self.has_thread.get_or_init(|| {
            let builder = thread::Builder::new().name(self.name.to_owned()).stack_size(STACK_BYTES);
            builder.spawn(|| self.run()).is_ok()
        });
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if !has_thread || jobs.len() >= self.jobs_max || jobs.try_reserve(1).is_err() {
            return Some(job);
        }
        jobs.push_back(job);
        self.has_job.notify_one();
        None
    }

    fn run(&self) {
        loop {
            let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
            let job = loop {
                match jobs.pop_front() {
                    Some(job) => break job,
                    None => jobs = self.has_job.wait(jobs).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(jobs);
            (self.work)(job);
        }
    }
}
