// Package fail holds the table of error kinds: what each means and the exit
// status it ends a command with. Nothing else invents a kind or a status.
// forge(7), EXIT STATUS, prints this table; a test compares the two.
package fail

import (
	"errors"
	"fmt"
)

// A Kind names one cause of failure, as it stands in an envelope's error.kind.
type Kind string

// The kinds of DESIGN §3. A tool may answer with kinds of its own; those end
// with status 1.
const (
	ToolCrashed        Kind = "tool_crashed"
	BadOutput          Kind = "bad_output"
	Tampered           Kind = "tampered"
	Attention          Kind = "attention"
	Usage              Kind = "usage"
	BadInput           Kind = "bad_input"
	ValidationFailed   Kind = "validation_failed"
	SchemaUnsupported  Kind = "schema_unsupported"
	NameInvalid        Kind = "name_invalid"
	StaticCheckFailed  Kind = "static_check_failed"
	LintFailed         Kind = "lint_failed"
	NotFound           Kind = "not_found"
	SandboxUnavailable Kind = "sandbox_unavailable"
	RuntimeUnavailable Kind = "runtime_unavailable"
	NetworkUnavailable Kind = "network_unavailable"
	Internal           Kind = "internal"
	NameTaken          Kind = "name_taken"
	Conflict           Kind = "conflict"
	IOError            Kind = "io_error"
	AuditUnavailable   Kind = "audit_unavailable"
	BreakerOpen        Kind = "breaker_open"
	Busy               Kind = "busy"
	PersonaDenied      Kind = "persona_denied"
	NamespaceDenied    Kind = "namespace_denied"
	NameForbidden      Kind = "name_forbidden"
	SecretDenied       Kind = "secret_denied"
	Unrecorded         Kind = "unrecorded"
	ApprovalRequired   Kind = "approval_required"
	PathDenied         Kind = "path_denied"
	CommandBlocked     Kind = "command_blocked"
	PolicyMalformed    Kind = "policy_malformed"
	VaultMalformed     Kind = "vault_malformed"
	ConfigMalformed    Kind = "config_malformed"
	RegistryMalformed  Kind = "registry_malformed"
	TrustMissing       Kind = "trust_missing"
	Timeout            Kind = "timeout"
	ResourceLimit      Kind = "resource_limit"
)

// A Row is one line of the table.
type Row struct {
	Kind    Kind
	Status  int
	Meaning string // one line, for forge(7)
}

// Table lists every kind by rising status. 2 is left to Go's own panics.
var Table = []Row{
	{ToolCrashed, 1, "the tool ended without an answer"},
	{BadOutput, 1, "the tool printed something else than one JSON object with ok"},
	{Tampered, 1, "the trail was altered"},
	{Attention, 4, "the trail is intact so far but wants a look"},
	{Usage, 64, "the command line is wrong"},
	{BadInput, 65, "the input is not one strict JSON value"},
	{ValidationFailed, 65, "the input does not fit the tool's schema"},
	{SchemaUnsupported, 65, "the schema cannot be enforced in full"},
	{NameInvalid, 65, "the name is not one"},
	{StaticCheckFailed, 65, "the implementation does not pass the static check"},
	{LintFailed, 65, "the description holds what a reader cannot see"},
	{NotFound, 66, "no such tool, run, file or scope"},
	{SandboxUnavailable, 69, "the sandbox cannot be built on this machine"},
	{RuntimeUnavailable, 69, "the interpreter is not installed"},
	{NetworkUnavailable, 69, "the network cannot be opened in a sandbox here"},
	{Internal, 70, "a fault in Forge itself"},
	{NameTaken, 73, "the name is in use in that scope"},
	{Conflict, 73, "what stands there already is another: a definition, a key, a log"},
	{IOError, 74, "a file could not be read or written"},
	{AuditUnavailable, 74, "the trail cannot take a record"},
	{BreakerOpen, 75, "a rate or count is used up"},
	{Busy, 75, "another command holds a lock"},
	{PersonaDenied, 77, "the tool is not among those allowed here"},
	{NamespaceDenied, 77, "the persona may not register that name"},
	{NameForbidden, 77, "the policy forbids the name"},
	{SecretDenied, 77, "the secret is not for this persona"},
	{Unrecorded, 77, "the definition was never recorded in this store"},
	{ApprovalRequired, 77, "the change wants an approval"},
	{PathDenied, 77, "the path may not be bound or written"},
	{CommandBlocked, 77, "the shell command is blocked"},
	{PolicyMalformed, 78, "policy.json cannot be read"},
	{VaultMalformed, 78, "the vault cannot be read"},
	{ConfigMalformed, 78, "config.toml cannot be read"},
	{RegistryMalformed, 78, "a tool file does not hold what its digest says"},
	{TrustMissing, 78, "a trusted key is wanted and missing"},
	{Timeout, 124, "the tool ran past its wall limit"},
	{ResourceLimit, 137, "the tool ran into a limit, named in details.limit"},
}

// StatusOf returns the exit status of k: 1 for a kind that is not ours, since
// a tool may answer with its own.
func StatusOf(k Kind) int {
	for _, r := range Table {
		if r.Kind == k {
			return r.Status
		}
	}
	return 1
}

// Error is a failure with a kind. Message follows STYLE §5 (no command name:
// the command adds it); Hint says what to type, and may be empty.
type Error struct {
	Kind    Kind
	Message string
	Hint    string
	Details map[string]any // JSON-encodable, never a secret
	Err     error          // the cause, already told in Message
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.Err }

// New returns an Error of kind k. The format may use %w once.
func New(k Kind, hint, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Kind: k, Message: err.Error(), Hint: hint, Err: errors.Unwrap(err)}
}

// With adds one detail and returns e.
func (e *Error) With(key string, value any) *Error {
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details[key] = value
	return e
}

// Of returns err as an Error, its message being the whole chain's. An error
// without a kind is internal; nil gives nil.
func Of(err error) *Error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return &Error{Kind: Internal, Message: err.Error(), Err: err}
	}
	whole := *e
	whole.Message = err.Error()
	return &whole
}

// KindOf returns the kind of err, "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	return Of(err).Kind
}
