import '../styles/tokens.css';
import '../styles/base.css';
import { mount } from 'svelte';
import Staff from './Staff.svelte';

const target = document.getElementById('app');
if (target) mount(Staff, { target });
