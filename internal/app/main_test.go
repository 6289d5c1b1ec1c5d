package app

import (
	"os"
	"slices"
	"testing"

	"fleet/internal/store/postgres/pgtest"
)

// TestMain makes the test binary the program too, where a server under test starts itself for a run.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{shimCommand, acpCommand, askCommand, modelCommand}, os.Args[1]) {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(pgtest.Run(m))
}
