//! The sessions of a worker that wait for a next request, so that a drain or a shortage can reach them.
use slab::Slab;
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Wakers of idle sessions.
#[derive(Debug, Default)]
pub struct IdleSessions {
    wakers: RefCell<Slab<Waker>>,
}

/// A place in [`IdleSessions`], given up when dropped.
struct Place<'a> {
    list: &'a IdleSessions,
    key: Option<usize>,
}

impl IdleSessions {
    /// Waits for `ready`; gives up with `None` once `dismissed` says so (it is asked again after [`wake_all`](Self::wake_all)).
    pub async fn wait<F: Future + Unpin>(
        &self,
        mut ready: F,
        dismissed: impl Fn() -> bool,
    ) -> Option<F::Output> {
        let mut place = Place {
            list: self,
            key: None,
        };
        poll_fn(move |cx| {
            // All of it, not copies of its fields: its drop gives up the place that it knows then.
            let place = &mut place;
            if let Poll::Ready(output) = std::pin::Pin::new(&mut ready).poll(cx) {
                return Poll::Ready(Some(output));
            }
            if dismissed() {
                return Poll::Ready(None);
            }
            let mut wakers = place.list.wakers.borrow_mut();
            match place.key.and_then(|key| wakers.get_mut(key)) {
                Some(waker) => waker.clone_from(cx.waker()),
                None => {
                    let key = wakers.insert(cx.waker().clone());
                    drop(wakers);
                    place.key = Some(key);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Wakes every idle session, so that it looks whether it is dismissed.
    pub fn wake_all(&self) {
        let wakers: Vec<Waker> = self
            .wakers
            .borrow()
            .iter()
            .map(|(_, waker)| waker.clone())
            .collect();
        for waker in wakers {
            waker.wake();
        }
    }

    /// How many sessions are idle.
    pub fn count(&self) -> usize {
        self.wakers.borrow().len()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.list.wakers.borrow_mut().try_remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

    #[test]
    fn a_wait_that_is_over_leaves_nothing_behind() {
        let list = IdleSessions::default();
        let mut context = Context::from_waker(Waker::noop());
        let is_ready = std::cell::Cell::new(false);
        {
            let ready = poll_fn(|_| {
                if is_ready.get() {
                    Poll::Ready(1)
                } else {
                    Poll::Pending
                }
            });
            let mut waiting = pin!(list.wait(ready, || false));
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            assert_eq!(list.count(), 1);
            is_ready.set(true);
            assert_eq!(waiting.as_mut().poll(&mut context), Poll::Ready(Some(1)));
        }
        assert_eq!(list.count(), 0);
        {
            let mut waiting = pin!(list.wait(std::future::pending::<()>(), || false));
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            assert_eq!(list.count(), 1);
        }
        assert_eq!(list.count(), 0, "a wait that was given up");
    }
}
