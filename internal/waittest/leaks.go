package waittest

import (
	"testing"
	"time"

	"go.uber.org/goleak"
)

// VerifyNone works like goleak.VerifyNone, but gives the goroutines Limit to end. goleak alone gives them less than a second.
func VerifyNone(t testing.TB, options ...goleak.Option) {
	t.Helper()
	awaitNoLeaks(options)
	goleak.VerifyNone(t, options...)
}

// VerifyTestMain works like goleak.VerifyTestMain, but gives the goroutines Limit to end.
func VerifyTestMain(m goleak.TestingM, options ...goleak.Option) {
	goleak.VerifyTestMain(waitingMain{m, options}, options...)
}

// waitingMain is a goleak.TestingM whose Run also waits for the end of the tests' goroutines.
type waitingMain struct {
	goleak.TestingM
	options []goleak.Option
}

func (m waitingMain) Run() int {
	code := m.TestingM.Run()
	if code == 0 {
		awaitNoLeaks(m.options)
	}
	return code
}

// awaitNoLeaks waits until no goroutine is left except those that the options ignore, for at most Limit.
func awaitNoLeaks(options []goleak.Option) {
	begun := time.Now()
	for goleak.Find(options...) != nil && time.Since(begun) < Limit { // each Find waits a little
		continue
	}
}
