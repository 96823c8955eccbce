package schema

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/xeipuuv/gojsonschema"

	"forge/lib/wire"
)

// The engine has no cancel and collects every error there is, about 1 kB each
// and the names on the way to it: 4 MiB of wrong items are 2 GB. But it asks its one, global, table of texts
// for each error, so the table counts, and panics when the count is used up or
// the deadline has passed; check turns that into a refusal. Since the table is
// global, one value is checked at a time.
var metering struct {
	sync.Mutex
	now atomic.Pointer[meter]
}

// maxRaws is how many bytes of errors one Check may cost, those of alternatives
// that do not fit included; perRaw is what one takes beside its path.
const (
	maxRaws = 96 << 20
	perRaw  = 600
)

// A meter is what one Check may still cost.
type meter struct {
	left atomic.Int64 // errors of the engine
	late atomic.Bool  // the deadline has passed
	path int          // bytes of the longest path of the value
}

var (
	errSpent    = errors.New("too many things to tell")
	errSteps    = errors.New("too many steps")
	errDeadline = fmt.Errorf("more than %s", deadline)
)

// poll panics once the deadline has passed.
func (m *meter) poll() {
	if m != nil && m.late.Load() {
		panic(errDeadline)
	}
}

// ready sets what all that is asked of the engine may cost, once the paths of
// the value are known: three copies are made of each.
func (m *meter) ready() { m.left.Store(int64(maxRaws / (perRaw + 3*m.path))) }

// ask asks the engine, and panics if that costs too much.
func (m *meter) ask(e engine, v wire.Value) []raw {
	x := plain(v)
	metering.Lock()
	defer metering.Unlock()
	m.poll()
	metering.now.Store(m)
	defer metering.now.Store(nil)
	return e.check(x)
}

// attempt is ask for what can be done without: it says whether that was done.
func (m *meter) attempt(e engine, v wire.Value) (raws []raw, done bool) {
	defer func() {
		if p := recover(); p == errDeadline {
			panic(p)
		} else if p != nil {
			raws, done = nil, false
		}
	}()
	return m.ask(e, v), true
}

// texts is the engine's table of error texts, none of which is used.
type texts struct{ gojsonschema.DefaultLocale }

func tick() string {
	if m := metering.now.Load(); m != nil {
		m.poll()
		if m.left.Add(-1) < 0 {
			panic(errSpent)
		}
	}
	return "."
}

func (texts) False() string                        { return tick() }
func (texts) Required() string                     { return tick() }
func (texts) InvalidType() string                  { return tick() }
func (texts) NumberAnyOf() string                  { return tick() }
func (texts) NumberOneOf() string                  { return tick() }
func (texts) NumberAllOf() string                  { return tick() }
func (texts) NumberNot() string                    { return tick() }
func (texts) MissingDependency() string            { return tick() }
func (texts) Internal() string                     { return tick() }
func (texts) Const() string                        { return tick() }
func (texts) Enum() string                         { return tick() }
func (texts) ArrayNoAdditionalItems() string       { return tick() }
func (texts) ArrayMinItems() string                { return tick() }
func (texts) ArrayMaxItems() string                { return tick() }
func (texts) Unique() string                       { return tick() }
func (texts) ArrayContains() string                { return tick() }
func (texts) ArrayMinProperties() string           { return tick() }
func (texts) ArrayMaxProperties() string           { return tick() }
func (texts) AdditionalPropertyNotAllowed() string { return tick() }
func (texts) InvalidPropertyName() string          { return tick() }
func (texts) StringGTE() string                    { return tick() }
func (texts) StringLTE() string                    { return tick() }
func (texts) DoesNotMatchPattern() string          { return tick() }
func (texts) DoesNotMatchFormat() string           { return tick() }
func (texts) MultipleOf() string                   { return tick() }
func (texts) NumberGTE() string                    { return tick() }
func (texts) NumberGT() string                     { return tick() }
func (texts) NumberLTE() string                    { return tick() }
func (texts) NumberLT() string                     { return tick() }
func (texts) ConditionThen() string                { return tick() }
func (texts) ConditionElse() string                { return tick() }
