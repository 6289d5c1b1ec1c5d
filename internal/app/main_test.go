package app

import (
	"os"
	"slices"
	"testing"

	"fleet/internal/store/postgres/pgtest"
)

// TestMain lets the test binary also act as the program, which a server under test starts for its runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{shimCommand, acpCommand, askCommand, modelCommand}, os.Args[1]) {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(pgtest.Run(m))
}
