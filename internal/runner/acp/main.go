package acp

import (
	"context"
	"os"

	"fleet/internal/runner/program"
)

// Main executes the job in the file args[0] in the current directory. It returns the exit code, which is 0 if every
// turn ended normally or was cancelled.
func Main(args []string) int {
	return program.Main(args, func(ctx context.Context, j *Job) int {
		out := &output{to: os.Stdout}
		if err := run(ctx, j, out); err != nil {
			out.write(Line{Type: LineError, Text: err.Error(), Code: codeOf(err)})
			return 1
		}
		return 0
	})
}
