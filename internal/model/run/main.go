//go:build cgo

package run

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"fleet/internal/runner/driver"
)

// abandonedGrace is how long a run may take to end after its supervisor was killed, if no server ends it.
const abandonedGrace = time.Minute

// Main executes the run that its standard input and its environment describe, and returns the exit code of the process. The
// server's binary calls Main if it was started with the command of driver.NewModel.
func Main() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // if nobody reads the output any more, a write fails instead of ending the process
	runDir, promptFile := os.Getenv("FLEET_RUN_DIR"), os.Getenv("FLEET_PROMPT_FILE")
	if runDir == "" || promptFile == "" {
		fmt.Fprintln(os.Stderr, "this command executes one run of a model, and only Fleet can start it")
		return 2
	}
	if err := runJob(runDir, promptFile, signals); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runJob reads the job from standard input and executes it with the prompt in promptFile. It writes the outputs and the outcome
// to standard output, and the payload to a file in runDir. A signal from signals interrupts the run.
func runJob(runDir, promptFile string, signals <-chan os.Signal) error {
	if err := makeUndumpable(); err != nil {
		return err
	}
	var job driver.ModelJob
	if err := json.NewDecoder(os.Stdin).Decode(&job); err != nil {
		return err
	}
	prompt, err := os.ReadFile(promptFile)
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the library's log is for its developers, and contains prompts
	if os.Getenv("HOME") == "" {
		if err := os.Setenv("HOME", runDir); err != nil { // the library needs a home directory
			return err
		}
	}
	out := &output{file: os.Stdout, usagePath: filepath.Join(runDir, driver.UsageFile)}
	ctx, r, err := newRun(context.Background(), job, out, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	r.gate.allowancePath = os.Getenv(driver.AllowanceVariable)
	r.home, r.processMarks = os.Getenv("HOME"), []string{"FLEET_RUN_DIR=" + runDir}
	if job.SkillsHome != "" {
		if err := os.Setenv("HOME", job.SkillsHome); err != nil {
			return err
		}
	}
	supervisor := os.Getppid()
	go func() {
		for range signals {
			r.end(errInterrupted)
			if os.Getppid() != supervisor {
				time.AfterFunc(abandonedGrace, func() { os.Exit(1) })
			}
		}
	}()
	o := r.execute(ctx, string(prompt))
	payloadPath := filepath.Join(runDir, "payload")
	if err := os.Remove(payloadPath); err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(o.Payload) > 0 {
		if err := os.WriteFile(payloadPath, o.Payload, 0o600); err != nil {
			return err
		}
		o.Payload = nil
	}
	return out.finish(driver.OutputLine{Outcome: &o})
}
