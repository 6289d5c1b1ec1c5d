//go:build cgo

package run

// MissingFeatures names the features that are missing from this build of the program. It is empty if none are missing.
const MissingFeatures = ""
