package app

import (
	"bytes"
	"context"
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"fleet/internal/runner"
	"fleet/internal/store/postgres/pgtest"
	"fleet/internal/waittest"
)

// TestMain lets the test binary also act as the program, which a server under test starts for its runs.
func TestMain(m *testing.M) {
	if code, ran := runner.Main(os.Args[1:]); ran {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == modelCommand {
		os.Exit(Main(os.Args[1:]))
	}
	checkTimeout = waittest.Limit // a loaded machine starts programs slowly
	// Unlike tests of other packages, most of these tests need the CPU. Running more of them in parallel makes each one
	// slower.
	flag.Parse()
	parallel, most := flag.Lookup("test.parallel").Value, runtime.GOMAXPROCS(0)+1
	if n, err := strconv.Atoi(parallel.String()); err == nil && n > most {
		_ = parallel.Set(strconv.Itoa(most))
	}
	os.Exit(pgtest.Run(m))
}

// runCommand runs the program with the arguments and only the environment variables in env.
func runCommand(ctx context.Context, env []string, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	p := &program{version: "test", environ: env, stdin: &bytes.Buffer{}, stdout: &out, stderr: &err}
	code = p.run(ctx, args)
	return code, out.String(), err.String()
}
