package app

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fleet/internal/face/cli"
)

// checkTimeout is how long each check may take. A service that does not answer delays the report for at most that long. Only tests
// change it.
var checkTimeout = 10 * time.Second

// verdict is the severity of a finding.
type verdict string

const (
	verdictOK      verdict = "ok"
	verdictWarning verdict = "warning" // it works, but may stop working soon, or a part does not work
	verdictFailed  verdict = "failed"
)

// finding is one line of the doctor's report.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	Message string  `json:"message"`
	Next    string  `json:"next,omitempty"` // what to do; empty if nothing has to be done
}

// doctor checks what a server with the configuration needs. It changes nothing, except that it creates and removes a file in the
// data directory.
type doctor struct {
	cfg             Config
	environ         []string
	findings        []finding
	projects        []string // names of the projects of the places on this machine and in Coder
	projectsUnknown bool     // the server uses Coder, and Coder's projects are not known
	startNoPrograms bool     // whether a program is on the PATH is checked, but its version is not
}

func (d *doctor) add(v verdict, check, next, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Verdict: v, Message: fmt.Sprintf(format, args...), Next: next})
}

// examine returns the findings about a server with the settings, whether it runs or not. The settings come from the
// file, the environment and the flags, as in Load.
func examine(ctx context.Context, file string, environ []string, flags *pflag.FlagSet) []finding {
	d := &doctor{environ: environ}
	cfg, err := Load(file, environ, flags)
	if err == nil {
		cfg, err = cfg.withPaths()
	}
	if err != nil {
		d.add(verdictFailed, "configuration", "correct the setting; `fleet init` writes a fleet.yaml that explains each", "%s", err)
		return d.findings
	}
	d.cfg = cfg
	d.checkConfiguration(file)
	for _, check := range []func(context.Context){d.checkDataDir, d.checkStore, d.checkCoder, d.checkIssuer, d.checkPrograms, d.checkLimits, d.checkSandbox, d.checkTLS, d.checkMetrics, d.checkAddresses} {
		limited, cancel := context.WithTimeout(ctx, checkTimeout)
		check(limited)
		cancel()
	}
	return d.findings
}

// checkConfiguration reports the path of the configuration file, or variables that no setting has.
func (d *doctor) checkConfiguration(file string) {
	path, err := findConfig(file, d.environ)
	if err != nil || path == "" {
		path = "no fleet.yaml: the defaults"
	}
	if len(d.cfg.unknownEnv) > 0 {
		d.add(verdictWarning, "configuration", "correct or remove the variables", "unknown variables: %s", strings.Join(d.cfg.unknownEnv, ", "))
		return
	}
	d.add(verdictOK, "configuration", "", "%s", path)
}

func (p *program) newDoctor() *cobra.Command {
	var asJSON bool
	var file string
	flags := DefaultConfig()
	cmd := &cobra.Command{
		Use:     "doctor",
		GroupID: cli.GroupServer,
		Short:   "Find out what is wrong with a server, and what to do",
		Long: `Examine what the server on this machine needs: its configuration, data and store, Coder
and its templates, the issuer of sign-ins, agents' programs, the sandbox, certificates,
clocks, disk space and addresses. Each line says what to do. It changes nothing, and works
with the server running or not: run it as the server's user, in the server's directory and
environment, and with the flags of its "fleet serve".

The exit code is 1 if something failed, and 0 if there are only warnings.`,
		Example: `  fleet doctor
  fleet doctor --config /etc/fleet/fleet.yaml --json
  fleet doctor --places coder --data /var/lib/fleet`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			findings := examine(cmd.Context(), file, p.environ, cmd.Flags())
			if asJSON || wantsJSON(cmd) {
				if err := p.printJSON(map[string]any{"version": p.version, "checks": findings}); err != nil {
					return err
				}
			} else if err := p.printFindings(findings); err != nil {
				return err
			}
			if n := countFailed(findings); n > 0 {
				return cli.Fail(cli.ExitError, "", "%d of %d checks failed", n, len(findings))
			}
			return nil
		},
	}
	addFlags(cmd.Flags(), &flags)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as --output json does")
	cmd.Flags().StringVar(&file, "config", "", "examine a server with the settings in `FILE` (FLEET_CONFIG)")
	return cmd
}

// wantsJSON reports whether the user has given --output json.
func wantsJSON(cmd *cobra.Command) bool { return cmd.Flag("output").Value.String() == "json" }

func (p *program) printJSON(value any) error {
	e := json.NewEncoder(p.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// printResult prints the text, or the value as JSON if the user wants JSON.
func (p *program) printResult(cmd *cobra.Command, value any, text string, args ...any) error {
	if wantsJSON(cmd) {
		return p.printJSON(value)
	}
	_, err := fmt.Fprintf(p.stdout, text, args...)
	return err
}

func (p *program) printFindings(findings []finding) error {
	w := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		message := f.Message
		if f.Next != "" {
			message += ": " + f.Next
		}
		if _, err := fmt.Fprintf(w, "%s\t%s\t%s\n", f.Verdict, f.Check, strings.Map(replaceControl, message)); err != nil {
			return err
		}
	}
	return w.Flush()
}

// replaceControl returns a space for a control character, because such characters would break the table. It returns other characters
// unchanged.
func replaceControl(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

func countFailed(findings []finding) (n int) {
	for _, f := range findings {
		if f.Verdict == verdictFailed {
			n++
		}
	}
	return n
}

// getenv returns the last value of the variable in d.environ, or "" if there is none.
func (d *doctor) getenv(name string) (value string) {
	for _, kv := range d.environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
