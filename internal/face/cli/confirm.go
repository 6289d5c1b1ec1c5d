package cli

import (
	"bufio"
	"context"
	"strings"
)

// isInteractive reports whether there is a terminal to ask for confirmation.
func (s *session) isInteractive() bool {
	return terminalOf(s.deps.Stdin, s.deps.Getenv).isTerminal() && s.screen.errTerminal.isTerminal()
}

// confirm asks a yes or no question on the terminal. Without a terminal it fails, with the hint. declinedText is the
// message of the error if the answer is no.
func (s *session) confirm(ctx context.Context, question, hint, declinedText string) error {
	if !s.isInteractive() {
		return &failure{code: ExitUsage, reason: "USAGE", message: "there is no terminal to ask for confirmation", hint: hint}
	}
	answer, err := s.readAnswer(ctx, question+" [y/N] ")
	switch {
	case err != nil:
		return err
	case strings.EqualFold(answer, "y"), strings.EqualFold(answer, "yes"):
		return nil
	}
	return Fail(ExitError, "", "%s", declinedText)
}

// readAnswer shows the question on the terminal and returns the line that the user enters, without spaces around it. At the
// end of the input, it returns "". If ctx is done first, it returns the cause.
func (s *session) readAnswer(ctx context.Context, question string) (string, error) {
	answers := make(chan string, 1)
	go func() { // reading from a terminal cannot be cancelled; the process ends soon after Ctrl-C
		line, _ := bufio.NewReader(s.deps.Stdin).ReadString('\n')
		answers <- strings.TrimSpace(line)
	}()
	s.screen.prompt(printable(question))
	select {
	case <-ctx.Done():
		s.screen.cancelPrompt()
		return "", context.Cause(ctx)
	case answer := <-answers:
		s.screen.endPrompt()
		return answer, nil
	}
}
