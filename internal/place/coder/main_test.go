package coder_test

import (
	"testing"

	"go.uber.org/goleak"

	"fleet/internal/waittest"
)

func TestMain(m *testing.M) { waittest.VerifyTestMain(m, goleak.IgnoreCurrent()) }
