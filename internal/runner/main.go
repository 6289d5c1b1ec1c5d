package runner

import (
	"fleet/internal/runner/acp"
	"fleet/internal/runner/claude"
	"fleet/internal/runner/driver"
	"fleet/internal/runner/question"
	"fleet/internal/runner/shim"
)

// The commands of Main.
const (
	shimCommand   = "shim"   // supervises a run
	clientCommand = "client" // talks to an agent program in the protocol that the next argument names
	askCommand    = "ask"    // lets an agent's program ask people
)

// Main executes a command of this package if the arguments of the program name one, and returns its exit code. ran reports
// whether it did. Main must be called from main's goroutine.
func Main(args []string) (code int, ran bool) {
	if len(args) < 2 {
		return 0, false
	}
	switch args[0] {
	case shimCommand:
		return shim.Main(args[1:]), true
	case askCommand:
		return question.Main(args[1:]), true
	case clientCommand:
		clients := map[string]func([]string) int{driver.ProtocolACP: acp.Main, driver.ProtocolClaude: claude.Main}
		if talk := clients[args[1]]; talk != nil {
			return talk(args[2:]), true
		}
	}
	return 0, false
}
