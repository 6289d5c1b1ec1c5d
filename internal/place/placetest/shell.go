package placetest

// ShellPrompts returns prompts for agents that may ask questions, and whose tasks are shell scripts that package runner runs.
func ShellPrompts() Prompts {
	return Prompts{
		Says: Prompt{
			Text:  "echo first; echo second >&2; sleep 0.06; echo third; echo all well",
			Lines: []string{"first", "second", "third"}, Summary: "all well",
		},
		Works: Prompt{Text: "echo at work; sleep 3600", Lines: []string{"at work"}},
		Fails: Prompt{Text: "echo no compiler >&2; exit 3", Reason: "exit code 3: no compiler"},
		IgnoresInterrupt: Prompt{
			// A signal that arrives just before read blocks is handled only when read returns, so read has a short timeout.
			Text:  "trap 'echo I do not listen' TERM; echo deaf; while true; do read -t 1 <$FLEET_MESSAGES || true; done",
			Lines: []string{"deaf"}, Reply: "I do not listen",
		},
		Payload: Prompt{Text: `printf 'x: 1\ny: 2' >"$FLEET_PAYLOAD"; echo done`, Payload: []byte("x: 1\ny: 2")},
		Changes: Prompt{Text: "echo one line >made; echo done", Lines: []string{"+one line", "made"}, Summary: "made"},
		Asks: Prompt{
			Text:  `echo at work; "$FLEET_ASK" permission Bash '{"command":"touch asked"}' || true; "$FLEET_ASK" question 'tabs or spaces?' tabs spaces`,
			Lines: []string{"at work"},
		},
		Listens: Prompt{Text: `echo I listen; for i in 1 2; do read -r m <"$FLEET_MESSAGES"; printf '%s\n' "$m"; done`, Lines: []string{"I listen"}},
	}
}

// AskingShellPrompts returns prompts like ShellPrompts for a place in which only the agents of the project "asking" may ask questions. The
// questions of the agents of "hasty" expire soon, and the agents of "talks" are FakeClaudes.
func AskingShellPrompts() Prompts {
	p := ShellPrompts()
	p.Asks.Project = "asking"
	p.UnansweredQuestion = Prompt{Project: "hasty", Text: `"$FLEET_ASK" question 'anybody?' || echo no answer`, Reply: "no answer"}
	p.Converses = Prompt{Project: "talks", Text: "go on"}
	return p
}

// ShellChecks returns the checks of the work of ShellPrompts.
func ShellChecks() CheckCommands {
	return CheckCommands{Fails: "echo no compiler >&2; exit 3", Hangs: "echo no compiler; sleep 3600", Output: "no compiler", Sees: "grep 'one line' made"}
}

// ShellLanding returns a project whose agents run shell scripts in clones of a repository.
func ShellLanding(project string) LandingProject {
	return LandingProject{
		Project: project, File: "made", HasBoth: "test -f made && test -f other",
		Change:   "echo one line >made",
		Conflict: "echo different >made",
		Other:    "echo another >other; git add other; git -c user.name=a -c user.email=a@example.com commit -qm other",
	}
}
