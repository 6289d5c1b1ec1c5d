package placetest

// FakePrompts returns prompts for agents of the place fake, with all features that they can have.
func FakePrompts() Prompts {
	return Prompts{
		Says:             Prompt{Text: "echo one\nstep a step\necho two\ndone all said", Lines: []string{"one", "a step", "two"}, Summary: "all said"},
		Works:            Prompt{Text: "echo at work\nwork 1000h", Lines: []string{"at work"}},
		Fails:            Prompt{Text: "fail out of ideas", Reason: "out of ideas"},
		IgnoresInterrupt: Prompt{Text: "echo at work\nignore-interrupt\nwait for-ever", Lines: []string{"at work"}, Reply: "interrupt ignored"},
		Payload:          Prompt{Text: "payload {\"a\": 1}\ndone ok", Summary: "ok", Payload: []byte(`{"a": 1}`)},
		Changes:          Prompt{Text: "change dir/file.go package one", Lines: []string{"+package one"}, Summary: "dir/file.go"},
		Listens:          Prompt{Text: "echo at work\nlisten\nlisten", Lines: []string{"at work"}},
		Asks: Prompt{
			Text:  "echo at work\nask-permission Bash {\"command\":\"touch asked\"}\nask tabs or spaces? | tabs | spaces",
			Lines: []string{"at work"},
		},
		UnansweredQuestion: Prompt{Text: "ask-within 10ms anybody?", Reply: "no answer"},
	}
}

// FakeChecks returns the checks of the work of FakePrompts.
func FakeChecks() CheckCommands {
	return CheckCommands{Fails: "echo no compiler; exit 3", Hangs: "echo no compiler; hang", Output: "no compiler", Sees: "has dir/file.go"}
}
