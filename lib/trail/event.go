// Package trail puts records on the chain and reads them back. The format of a
// line is lib/chain's; what a record says, and how it gets there whole, is here.
//
// A payload has these members in this order, absent ones left out:
//
//	seq ts ev sev persona session run tool digest boot up pid uid details
//
// seq counts from 1; ts is UTC in RFC 3339 with nanoseconds; boot is the
// kernel's boot id and up the milliseconds since it started (CLOCK_BOOTTIME),
// which order records where the clock was set back; sev is fixed by ev. details
// holds integers, strings, booleans and lists and objects of them, never an
// input and never a secret. forge-record(5) is the page.
package trail

import (
	"strings"

	"forge/lib/chain"
	"forge/lib/fail"
)

// Event names what happened.
type Event string

// Severity ranks events: info, notice, warning, critical.
type Severity string

// The events of this package, and of tools.
const (
	Genesis         Event = "audit.genesis"
	TornEvent       Event = "audit.torn"
	SegmentEvent    Event = "audit.segment"
	RotateEvent     Event = "audit.rotate"
	PrunedEvent     Event = "audit.pruned"
	RecoveredEvent  Event = "audit.recovered"
	CheckpointEvent Event = "audit.checkpoint"
	Created         Event = "forge.created"
	Replaced        Event = "forge.replaced"
	Removed         Event = "forge.removed"
	Revoked         Event = "forge.revoked"
	Adopted         Event = "forge.adopted"
	CallBegin       Event = "forge.call.begin"
	Called          Event = "forge.called"
	Promoted        Event = "forge.promoted"
	Refused         Event = "forge.refused"
	PersonaDenied   Event = "acl.persona_denied"
	SecretDenied    Event = "acl.persona_secret_denied"
	NamespaceDenied Event = "tool.namespace_denied"
	BreakerOpen     Event = "breaker_open"
	BreakerClosed   Event = "breaker_closed"
	LoadFailed      Event = "registry.load_failed"
)

// A Row is one event with its severity and meaning, as forge-record(5) prints
// them.
type Row struct {
	Event    Event
	Severity Severity
	Meaning  string
}

// Events lists every event a store of Forge may hold, those of later commands
// too, so that a reader knows them all.
var Events = []Row{
	{Genesis, "notice", "the chain begins; details.log names it"},
	{"audit.segment", "info", "a segment begins"},
	{"audit.rotate", "info", "a segment ends; details.next names the one that follows"},
	{TornEvent, "warning", "a line was not written whole; details names the bytes"},
	{"audit.pruned", "warning", "old segments were removed"},
	{"audit.recovered", "critical", "an operator let the chain go on after damage"},
	{"audit.checkpoint", "info", "the head was signed"},
	{Created, "notice", "a tool was registered"},
	{Removed, "notice", "a tool was taken out of its scope"},
	{Revoked, "warning", "a definition may not run any more"},
	{Replaced, "notice", "a tool's definition was replaced; details.old is the former digest"},
	{Adopted, "notice", "a tool that came by another way was checked and recorded"},
	{CallBegin, "info", "a tool is about to run"},
	{Called, "info", "a call ended; details.outcome says how"},
	{Promoted, "notice", "a tool was copied to a wider scope"},
	{Refused, "warning", "a request was refused; details.kind says why"},
	{"policy.reloaded", "notice", "a changed policy took effect"},
	{"policy.reload_failed", "warning", "a changed policy cannot be read; the last valid one holds"},
	{PersonaDenied, "warning", "the tool is not among those allowed to the caller"},
	{SecretDenied, "warning", "the persona may not use a secret the tool declares"},
	{NamespaceDenied, "warning", "the persona may not register that name"},
	{"tool.network_share", "notice", "a tool ran with a network"},
	{"tool.secrets_injected", "notice", "a tool got secrets; details has their names"},
	{"secret.vault_missing", "warning", "a declared secret is not in the vault"},
	{"secret.vault_malformed", "critical", "the vault cannot be read"},
	{BreakerOpen, "warning", "a rate or count is used up"},
	{BreakerClosed, "notice", "calls go through again"},
	{LoadFailed, "warning", "a tool file does not hold what its digest says"},
	{"path_gate.denied", "warning", "a write to a protected path was denied"},
	{"session.reset", "notice", "a session's scope was wiped"},
	{"session.timeout", "notice", "a session ended by itself"},
	{"skill.created", "notice", "a skill was written"},
	{"skill.graded", "info", "a skill was graded by mention"},
	{"skill.outcome_graded", "info", "a skill was graded by outcome"},
	{"skill.promoted", "notice", "a skill was copied to a wider scope"},
	{"skill.purged", "notice", "a skill was removed"},
	{"skill.updated", "notice", "a skill has a new version"},
	{"skill.saved", "notice", "a skill was saved for good"},
	{"runs.pruned", "notice", "old runs were removed"},
	{"secret.set", "notice", "a secret was set; details has its name"},
	{"secret.removed", "notice", "a secret was removed; details has its name"},
	{"plan.approved", "notice", "a person approved a plan"},
	{"plan.denied", "warning", "a plan was not approved"},
	{"plan.committed", "notice", "a plan was applied"},
	{"plan.rolled_back", "warning", "a plan was undone"},
	{"bash.run", "info", "a shell command ran"},
	{"bash.blocked", "warning", "a shell command was blocked"},
}

// severity returns the fixed severity of ev; events of other programs are info.
func severity(ev Event) Severity {
	for _, r := range Events {
		if r.Event == ev {
			return r.Severity
		}
	}
	return "info"
}

// CheckForeign refuses an event that another program may not put on the chain:
// one of ours, one under a prefix of ours, one that is either when dots and
// underscores are taken for the same, as they are in the names of tools, or one
// that is not prefix.word[.word…]. Errors are of kind bad_input.
func CheckForeign(ev string) error {
	ok := strings.Contains(ev, ".") && len(ev) <= 64
	for word := range strings.SplitSeq(ev, ".") {
		ok = ok && word != "" && word[0] >= 'a' && word[0] <= 'z'
	}
	for _, c := range ev {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_')
	}
	if !ok {
		return fail.New(fail.BadInput, "write your program's own prefix, a dot and a word, such as deploy.started", "event %q is not prefix.word", ev)
	}
	fold := func(s string) string { return strings.ReplaceAll(s, ".", "_") + "_" }
	for _, r := range Events {
		ours, _, _ := strings.Cut(string(r.Event), ".")
		const hint = "write your program's own prefix, such as deploy.started"
		switch {
		case strings.HasPrefix(ev, ours+"."):
			return fail.New(fail.BadInput, hint, "event %q: the prefix is Forge's own", ev)
		case strings.HasPrefix(fold(ev), fold(ours)):
			return fail.New(fail.BadInput, hint, "event %q: but for dots and underscores the prefix is Forge's own, %s", ev, ours)
		}
	}
	return nil
}

// Record is what a command puts on the chain. Seq to UID are filled in when it
// is appended.
type Record struct {
	Seq     uint64   `json:"seq"`
	TS      string   `json:"ts"`
	Event   Event    `json:"ev"`
	Sev     Severity `json:"sev"`
	Persona string   `json:"persona,omitempty"`
	Session string   `json:"session,omitempty"`
	Run     string   `json:"run,omitempty"`
	Tool    string   `json:"tool,omitempty"`
	Digest  string   `json:"digest,omitempty"`
	Boot    string   `json:"boot"`
	Up      int64    `json:"up"`
	PID     int      `json:"pid"`
	UID     int      `json:"uid"`
	Details any      `json:"details,omitempty"`
}

// TornOf reads an audit.torn payload for chain.Verifier.
func TornOf(payload []byte) (chain.Torn, bool) {
	if !hasEvent(payload, TornEvent) {
		return chain.Torn{}, false
	}
	return detailsOf[chain.Torn](payload)
}

// RefusalOf returns the event that records a refusal of that kind.
func RefusalOf(k fail.Kind) Event {
	switch k {
	case fail.PersonaDenied:
		return PersonaDenied
	case fail.NamespaceDenied:
		return NamespaceDenied
	case fail.SecretDenied:
		return SecretDenied
	}
	return Refused
}
