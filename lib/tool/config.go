package tool

import (
	"errors"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"forge/lib/fail"
	"forge/lib/wire"
)

// Config is what config.toml says:
//
//	[audit]
//	segment_mb = 64     # the size at which a segment of the trail ends
type Config struct {
	SegmentMB int64 // 0: the default
}

// ParseConfig reads config.toml. Errors are of kind config_malformed and name
// the line.
func ParseConfig(text []byte) (Config, error) {
	var f struct {
		Audit struct {
			SegmentMB int64 `toml:"segment_mb"`
		} `toml:"audit"`
	}
	if err := checkTOML(text); err != nil {
		return Config{}, fail.New(fail.ConfigMalformed, "", "config.toml %w", err)
	}
	md, err := toml.Decode(string(text), &f)
	if err != nil {
		if p, ok := errors.AsType[toml.ParseError](err); ok {
			return Config{}, fail.New(fail.ConfigMalformed, "", "config.toml line %d: %s", p.Position.Line, p.Message)
		}
		return Config{}, fail.New(fail.ConfigMalformed, "", "config.%w", err)
	}
	members := []string{"audit", "audit.segment_mb"}
	for _, k := range md.Keys() {
		if !slices.Contains(members, k.String()) {
			hint := "the members are: " + strings.Join(members, ", ")
			if near := wire.Nearest(k.String(), members); near != "" {
				hint = "write " + near + "; " + hint
			}
			return Config{}, fail.New(fail.ConfigMalformed, hint, "config.toml: unknown member %q", k)
		}
	}
	if mb := f.Audit.SegmentMB; md.IsDefined("audit", "segment_mb") && (mb < 1 || mb > 4096) {
		return Config{}, fail.New(fail.ConfigMalformed, "write a number of MiB", "config.toml: audit.segment_mb: %d is not from 1 to 4096", mb)
	}
	return Config{f.Audit.SegmentMB}, nil
}
