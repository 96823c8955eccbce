package main

import (
	"testing"

	"forge/e2e/script"
)

func TestMain(m *testing.M) { script.Main(m) }

func TestScripts(t *testing.T) { script.Run(t) }
