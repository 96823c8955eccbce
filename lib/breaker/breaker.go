// Package breaker counts calls and forges, and says when a rate or a count is
// used up. A tool's state is one small file, written whole and not synced:
// losing it costs a count, never a record.
package breaker

import (
	"context"
	"time"

	"forge/lib/fail"
	"forge/lib/store"
	"forge/lib/wire"
)

const (
	format   = "forge.state/1"
	window   = time.Minute
	maxState = 1 << 20
	lockWait = 10 * time.Second
)

// State is what is kept of a tool in a scope, or of a session.
type State struct {
	Format string  `json:"format"`
	Calls  int64   `json:"calls,omitempty"`
	Forges int64   `json:"forges,omitempty"`
	Recent []int64 `json:"recent,omitempty"` // calls of the last minute, Unix ms
	Open   bool    `json:"open,omitempty"`   // the rate is used up, and that is recorded
	Fault  string  `json:"fault,omitempty"`  // SHA-256 of the bad file that was recorded last
}

// Load returns the state in a file, empty where there is none or it is not one.
func Load(path string) State {
	var s State
	b, err := store.ReadFile(path, maxState)
	if err != nil {
		return State{Format: format}
	}
	v, err := wire.Parse(b, wire.File)
	if err != nil || wire.DecodeRecord(v, &s) != nil || s.Format != format {
		return State{Format: format}
	}
	return s
}

// Update changes the state in a file under the lock of state/. change returns
// false to leave the file as it is.
func Update(ctx context.Context, st *store.Store, path string, change func(*State) bool) error {
	unlock, err := st.Lock(ctx, st.StateLock(), lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	s := Load(path)
	if !change(&s) {
		return nil
	}
	s.Format = format
	b, err := wire.Encode(s)
	if err != nil {
		return err
	}
	return st.WriteFile(path, append(b, '\n'), store.Renamed)
}

// Turn says what a call did to a breaker that was closed or open.
type Turn int

// The turns.
const (
	Same   Turn = iota
	Opened      // this call found the rate used up, the first to do so
	Closed      // this call is the first to go through again
)

// Call counts a call of a tool, whose state is at path, under a rate per
// minute; 0 is no limit. Errors: breaker_open, with the seconds until the next
// call may go through.
func Call(ctx context.Context, st *store.Store, path string, rpm int64) (Turn, error) {
	turn := Same
	var denied error
	err := Update(ctx, st, path, func(s *State) bool {
		now := st.Now()
		if denied = s.rate(now, rpm); denied != nil {
			if !s.Open {
				turn = Opened
			}
			s.Open = true
			return turn == Opened
		}
		if s.Open {
			turn, s.Open = Closed, false
		}
		s.Calls++
		if s.Recent = append(s.Recent, now.UnixMilli()); rpm == 0 {
			s.Recent = nil
		}
		return true
	})
	if err != nil {
		return Same, err
	}
	return turn, denied
}

// MayCall is what Call would say, and counts nothing.
func MayCall(st *store.Store, path string, rpm int64) error {
	s := Load(path)
	return s.rate(st.Now(), rpm)
}

// rate drops the calls that left the window and says whether one more fits.
func (s *State) rate(now time.Time, rpm int64) error {
	recent := s.Recent[:0]
	for _, ms := range s.Recent {
		if age := now.Sub(time.UnixMilli(ms)); age >= 0 && age < window {
			recent = append(recent, ms)
		}
	}
	s.Recent = recent
	if rpm <= 0 || int64(len(recent)) < rpm {
		return nil
	}
	// The window slides: one call goes through when the oldest of the last rpm
	// calls leaves it.
	free := time.UnixMilli(recent[int64(len(recent))-rpm]).Add(window).Sub(now)
	seconds := int64((free + time.Second - 1) / time.Second)
	return fail.New(fail.BreakerOpen, "wait, or raise breakers.per_tool_rpm in policy.json (forge-policy(5))",
		"rate of calls: %d a minute used up, %d s to wait", rpm, seconds).
		With("breaker", "per_tool_rpm").With("retry_after_s", max(1, seconds))
}

// Forge counts a forge of a session, whose state is at path, up to most; 0 is
// no limit. Errors: breaker_open.
func Forge(ctx context.Context, st *store.Store, path string, most int64) error {
	var denied error
	err := Update(ctx, st, path, func(s *State) bool {
		if denied = s.count(most); denied != nil {
			return false
		}
		s.Forges++
		return true
	})
	if err != nil {
		return err
	}
	return denied
}

// MayForge is what Forge would say, and counts nothing.
func MayForge(path string, most int64) error {
	s := Load(path)
	return s.count(most)
}

// count says whether one more forge fits.
func (s *State) count(most int64) error {
	if most <= 0 || s.Forges < most {
		return nil
	}
	return fail.New(fail.BreakerOpen, "end the session, or ask the operator (breakers.per_session_forge_count in policy.json)",
		"forges of this session: %d, at most %d", s.Forges, most).With("breaker", "per_session_forge_count")
}
