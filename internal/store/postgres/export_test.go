package postgres

// Imported is imported for tests.
var Imported = importedTables
