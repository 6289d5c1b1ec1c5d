package main

// failure is the panic of check. A benchmark has nothing to do about an error but to end, so its functions need not return
// errors.
type failure struct{ error }

// check panics with the error, unless it is nil.
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
