//! Checks `[tcp_profile.NAME]`, and `tcp_profiles` of listeners.
use super::named::{Named, Words};
use super::networks::is_interface;
use crate::config::file;
use crate::config::plan::{TcpProfilePlan, TcpProfileRules};
use crate::config::problem::Problems;
use crate::config::section::Written;
use crate::config::setting::Setting;
use crate::config::values;
use carrick_splice::tcp_tuning::{
    Conditions, Keepalive, Profile, ProfileSide, Rule, Selector, bandwidth_delay_bytes,
};
use std::sync::Arc;
use toml::Spanned;

const WORDS: Words = Words {
    what: "TCP profile",
    table: "tcp_profile",
    wanted: "",
    unused: "no connection has the TCP profile",
    use_it: "name it in `tcp_profiles` of a listener or as `profile` of a link, or remove it",
};

/// The profiles, and which of them are used.
pub struct Profiles<'f> {
    named: Named<'f>,
    /// In the order of the file.
    pub plans: Vec<Arc<TcpProfilePlan>>,
}

/// Checks the profiles.
pub fn check<'f>(
    written: &'f [Written<file::TcpProfile>],
    problems: &mut Problems,
) -> Profiles<'f> {
    let plan = |written: &Written<file::TcpProfile>| {
        Arc::new(TcpProfilePlan {
            name: written.name.get_ref().clone(),
            profile: profile(written, problems),
        })
    };
    Profiles {
        named: Named::new(WORDS, written.iter().map(|profile| &profile.name)),
        plans: written.iter().map(plan).collect(),
    }
}

impl Profiles<'_> {
    /// The rules of a listener; `None`: it has none, or they are wrong.
    pub fn rules(
        &self,
        written: &Setting<Vec<Written<file::TcpProfileRule>>>,
        problems: &mut Problems,
    ) -> Option<TcpProfileRules> {
        let list = written.given()?;
        if list.get_ref().is_empty() {
            problems
                .error(list.span(), "nothing is chosen here")
                .help("leave `tcp_profiles` out, or name a profile: `tcp_profiles = { profile = \"NAME\" }`");
        }
        let rules: Vec<_> = (list.get_ref().iter())
            .filter_map(|rule| self.rule(rule, problems))
            .collect();
        let of_clients = |rule: &&Rule<_>| rule.when.side != Some(ProfileSide::Server);
        let of_all_clients = (rules.iter().find(of_clients))
            .filter(|rule| {
                let anybody = Conditions {
                    side: rule.when.side,
                    ..Conditions::default()
                };
                rule.when == anybody
            })
            .map(|rule| Arc::clone(&rule.profile));
        Some(TcpProfileRules {
            of_all_clients,
            rules: Selector::new(rules),
        })
    }

    /// The profile that is named, which is used from now on; `None`: none is, or there is none of this name.
    pub fn find(
        &self,
        name: &Setting<String>,
        problems: &mut Problems,
    ) -> Option<Arc<TcpProfilePlan>> {
        let index = self.named.find(name.given()?, problems)?;
        self.plans.get(index).map(Arc::clone)
    }

    fn rule(
        &self,
        written: &Written<file::TcpProfileRule>,
        problems: &mut Problems,
    ) -> Option<Rule<Arc<TcpProfilePlan>>> {
        let profile = self.find(&written.profile, problems);
        let interface = written.interface.given();
        if let Some(text) = interface.filter(|text| !is_interface(text.get_ref())) {
            problems
                .error(text.span(), "this is not an interface's name")
                .help("`ip link` shows them");
        }
        let peer = written
            .subnet
            .refine("a network", problems, |text| values::network(text));
        let (above, below) = (given(&written.rtt_above), given(&written.rtt_below));
        if above.is_some_and(|above| below.is_some_and(|below| below <= above)) {
            problems
                .error(written.span.clone(), "no round trip can be both")
                .help("`rtt_above` is the least, and `rtt_below` more than it");
        }
        Some(Rule {
            when: Conditions {
                side: given(&written.side),
                interface: interface.map(|text| text.get_ref().clone()),
                peer: given(&peer),
                rtt_at_least: above,
                rtt_below: below,
            },
            profile: profile?,
        })
    }

    /// Warns of profiles that no rule names.
    pub fn report_unused(&self, problems: &mut Problems) {
        self.named.report_unused(problems);
    }
}

fn given<T: Clone>(setting: &Setting<T>) -> Option<T> {
    setting.given().map(|value| value.get_ref().clone())
}

fn profile(written: &Written<file::TcpProfile>, problems: &mut Problems) -> Profile {
    if let Err(help) = values::plain_name(written.name.get_ref()) {
        problems
            .error(written.name.span(), "this is not a name for a TCP profile")
            .help(help);
    }
    let on_the_way = on_the_way(written, problems);
    let profile = Profile {
        initial_window_bytes: given(&written.initial_window),
        congestion_control: given(&written.congestion),
        pacing_rate: given(&written.pacing_rate),
        send_buffer_bytes: given(&written.send_buffer).or(on_the_way),
        receive_buffer_bytes: given(&written.receive_buffer).or(on_the_way),
        window_clamp_bytes: given(&written.window_clamp),
        initial_receive_window_segments: given(&written.initial_receive_window),
        user_timeout: given(&written.user_timeout),
        keepalive: written.keepalive.given().and_then(|keepalive| {
            let written = keepalive.get_ref();
            Some(Keepalive {
                idle: given(&written.idle)?,
                interval: given(&written.interval)?,
                probes: given(&written.probes)?,
            })
        }),
        rto_min: given(&written.rto_min),
        rto_initial: given(&written.rto_initial),
        rto_max: given(&written.rto_max),
        delayed_ack_max: given(&written.delayed_ack_max),
        quick_ack: written.quick_ack,
        unsent_low_water_bytes: given(&written.unsent_low_water),
        segment_bytes_max: given(&written.segment_max),
    };
    if let Err(error) = profile.check() {
        let key = match error.setting {
            carrick_splice::tcp_tuning::Setting::CongestionControl => "congestion",
            _ => "",
        };
        let place = written.key(key).unwrap_or(written.name.span());
        problems.error(place, error.to_string());
    }
    if profile == Profile::default() {
        problems
            .warning(written.name.span(), "this TCP profile sets nothing")
            .help("add a setting, such as `initial_window = \"64 KB\"`");
    }
    profile
}

/// How much is under way on a link that is full.
fn on_the_way(written: &Written<file::TcpProfile>, problems: &mut Problems) -> Option<u32> {
    let alone = match (
        written.bandwidth.is_absent(),
        written.round_trip.is_absent(),
    ) {
        (false, true) => Some(("bandwidth", "round_trip")),
        (true, false) => Some(("round_trip", "bandwidth")),
        _ => None,
    };
    if let Some((one, other)) = alone {
        let place = written.key(one).unwrap_or(written.name.span());
        problems
            .error(place, format!("`{one}` needs `{other}`"))
            .help("buffers are as large as what is under way: bandwidth × round trip");
    }
    let bandwidth = written.bandwidth.given().map(Spanned::get_ref)?;
    let round_trip = written.round_trip.given().map(Spanned::get_ref)?;
    Some(bandwidth_delay_bytes(*bandwidth, *round_trip))
}
