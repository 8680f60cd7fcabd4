//! How what is spliced for a client is paced: by the class of where its request goes, kept for the requests that follow.
use crate::context::client::Client;
use carrick_splice::PaceHandle;

impl Client {
    /// How what is spliced for this client is paced, to the server and to the client, by a class of the plan in force for it (an
    /// index). What is told holds until another class is asked for, or [`forget_pace`](Client::forget_pace). Without a class nothing is
    /// looked up.
    pub fn paced(&mut self, class: Option<usize>) -> [PaceHandle; 2] {
        let Some(class) = class else {
            self.forget_pace();
            return [PaceHandle::default(); 2];
        };
        if let Some(kept) = &self.kept_pace.0
            && kept.0 == class
        {
            return kept.1.both();
        }
        // First, so that its places are free for the next.
        self.forget_pace();
        let worker = &self.worker;
        let paced = self.live.plan().pace.classes.get(class).and_then(|class| {
            let client = self.who().ip();
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
        self.kept_pace.0 = Some(Box::new((class, paced)));
        both
    }

    /// Whether that is what was told last.
    pub fn is_paced_by(&self, class: Option<usize>) -> bool {
        self.kept_pace.0.as_ref().map(|kept| kept.0) == class
    }

    /// The name of the class by which what is spliced for this client is paced.
    pub fn class(&self) -> Option<&str> {
        let (class, _) = self.kept_pace.0.as_deref()?;
        let class = self.live.plan().pace.classes.get(*class);
        class.map(|class| &*class.name)
    }

    /// Gives up what the client has of its class.
    pub fn forget_pace(&mut self) {
        self.kept_pace.0 = None;
    }
}
