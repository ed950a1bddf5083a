#!/usr/bin/env node
import '../dist/cli/workflow-main.js';
