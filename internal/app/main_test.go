package app

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"fleet/internal/store/postgres/pgtest"
)

// TestMain lets the test binary also act as the program, which a server under test starts for its runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{shimCommand, clientCommand, askCommand, modelCommand}, os.Args[1]) {
		os.Exit(Main(os.Args[1:]))
	}
	// Unlike tests of other packages, most of these tests need the CPU. Running more of them in parallel makes each one
	// slower.
	flag.Parse()
	parallel, most := flag.Lookup("test.parallel").Value, runtime.GOMAXPROCS(0)+1
	if n, err := strconv.Atoi(parallel.String()); err == nil && n > most {
		_ = parallel.Set(strconv.Itoa(most))
	}
	os.Exit(pgtest.Run(m))
}
