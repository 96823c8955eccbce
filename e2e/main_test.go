// Package e2e runs pipelines of the built binaries.
package e2e

import (
	"testing"

	"forge/e2e/script"
)

func TestMain(m *testing.M) { script.Main(m) }
