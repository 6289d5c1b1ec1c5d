package main

// failure is the value with which check panics. The only thing that a benchmark can do about an error is to end, so its
// functions panic instead of returning errors.
type failure struct{ error }

// check panics if the error is not nil.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must returns the value, or panics with the error.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// caught calls f, and returns the error with which check or must panicked.
func caught(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	f()
	return nil
}
