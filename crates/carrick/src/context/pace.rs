//! How what is spliced for a client is paced: by the class of where its request goes, kept for the requests that follow.
use super::live::WorkerLive;
use super::request_context::RequestContext;
use carrick_splice::{PaceHandle, Paced};

/// What a client has of a class. Dropped with the class, the configuration, or the client.
#[derive(Default)]
pub struct KeptPace(Option<Box<(usize, Paced)>>);

impl KeptPace {
    /// How what is spliced for this client is paced, to the server and to the client, by a class of the plan in force for it (an
    /// index). What is told holds until another class is asked for, or [`forget`](KeptPace::forget). Without a class nothing is
    /// looked up.
    pub fn of(&mut self, context: &RequestContext, class: Option<usize>) -> [PaceHandle; 2] {
        let Some(class) = class else {
            self.forget();
            return [PaceHandle::default(); 2];
        };
        if let Some(kept) = &self.0
            && kept.0 == class
        {
            return kept.1.both();
        }
        // First, so that its places are free for the next.
        self.forget();
        let worker = &context.worker;
        let paced = context
            .live
            .plan()
            .pace
            .classes
            .get(class)
            .and_then(|class| {
                let client = context.who().ip();
                worker
                    .pacer
                    .pacing()
                    .pace(&class.name, client, worker.number)
            });
        // A class that a reload has taken away holds nothing back.
        let Some(paced) = paced else {
            return [PaceHandle::default(); 2];
        };
        let both = paced.both();
        self.0 = Some(Box::new((class, paced)));
        both
    }

    /// Whether that is what was told last.
    pub fn is_by(&self, class: Option<usize>) -> bool {
        self.0.as_ref().map(|kept| kept.0) == class
    }

    /// The name of the class by which what is spliced is paced; `live` has the plan in force for the client.
    pub fn class<'l>(&self, live: &'l WorkerLive) -> Option<&'l str> {
        let (class, _) = self.0.as_deref()?;
        let class = live.plan().pace.classes.get(*class);
        class.map(|class| &*class.name)
    }

    /// Gives up what the client has of its class.
    pub fn forget(&mut self) {
        self.0 = None;
    }
}
